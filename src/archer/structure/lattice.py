"""All accepted ways to fill a canvas, weighed by a pass: the best, a drawn one, and how sure columns are.

Axes: K columns, n of them with logits, Q states, C classes, S sets of classes, L links.

Exact recursions over a token automaton, in logarithms: `down[i, q]` weighs what may follow from state q in
column i, `up[i, q]` what may come before it.  A column with a token in it admits that token.  One that nobody
reads says what is possible and not how likely: it adds nothing, and takes the best where others take the sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from archer.passes.canvas import Flags, Ints, Reals
from archer.passes.reduction import FAINTEST
from archer.structure.token_automaton import NEVER, Links, TokenAutomaton

OPEN = -1
"""Stands for the token of a column that is to be filled."""
LEAST = -1e4
"""The lowest logit; what a method rules out may still be the only way to complete a text."""
FAINT = 1e-26
"""Of the highest probability of a column: what is below it is not told apart well by exponentials."""
ROWS = 2
"""Columns whose logits are reduced at a time: they should stay in a core's cache."""
SET_ROWS = 16
"""The same for columns whose classes are."""
MANY = 1 << 15
"""Tokens of a class among which the best is often that of all tokens, which is found sooner."""
Weights = NDArray[np.float32]


class Classes(NamedTuple):
    """The logits of n columns by class of tokens."""

    best: Reals
    """[n, C]: the highest of each class."""
    mass: Reals
    """[n, C]: the logarithm of the sum of their exponentials."""


def by_class(automaton: TokenAutomaton, logits: Weights, temperature: float = 1.0) -> Classes:
    """[n, V] -> Classes

    One exponential per logit, below the highest of its column; classes so far below it that little of them
    is left are reduced once more by themselves.
    """
    start, values = automaton.first[:-1], torch.from_numpy(logits)
    best, mass = np.empty((len(logits), len(start))), np.empty((len(logits), len(start)))
    tokens = torch.from_numpy(automaton.tokens)
    for at in range(0, len(logits), ROWS):
        here = slice(at, at + ROWS)
        own = values[here].index_select(1, tokens)
        if temperature != 1.0:
            own /= temperature
        highest = np.maximum.reduceat(own.numpy(), start, axis=1).clip(min=LEAST / temperature)
        top = highest.max(axis=1, keepdims=True)
        lowest = torch.from_numpy(np.maximum(LEAST / temperature - top, FAINTEST[own.dtype]))
        shares = own.sub_(torch.from_numpy(top)).clamp_(min=lowest).exp_().numpy()
        best[here] = highest
        mass[here] = np.log(np.add.reduceat(shares, start, axis=1)) + top
    faint = best < best.max(axis=1, keepdims=True) + math.log(FAINT)
    for kind in np.flatnonzero(faint.any(axis=0)).tolist():
        rows, members = np.flatnonzero(faint[:, kind]), automaton.members(kind)
        few = np.maximum(logits[np.ix_(rows, members)], LEAST) / np.float32(temperature)
        best[rows, kind] = few.max(axis=1)
        mass[rows, kind] = np.logaddexp.reduce(few, axis=1)
    return Classes(best, mass)


def by_set(links: Links, weights: Reals, *, total: bool) -> Reals:
    """[n, C] -> [n, S]: the best of the classes of each set, or the logarithm of the sum of all."""
    start, sizes = links.first[:-1], np.diff(links.first)
    made = np.empty((len(weights), len(start)))
    for at in range(0, len(weights), SET_ROWS):
        own = weights[at : at + SET_ROWS, links.classes]
        best = np.maximum.reduceat(own, start, axis=1)
        if total:
            own -= best.repeat(sizes, axis=1)
            shares = np.exp(own.astype(np.float32))
            best += np.log(np.add.reduceat(shares, start, axis=1, dtype=np.float64))
        made[at : at + SET_ROWS] = best
    return made


@dataclass(frozen=True)
class Lattice:
    """The columns of one row, and what its next tokens may be."""

    automaton: TokenAutomaton
    tokens: Ints
    """[K]: what stands in each column, or OPEN."""
    known: Ints
    """[K]: which of the n logits are those of a column, or -1."""
    closed: Flags
    """[K]: columns in which an end mark leaves no trace, because the text goes on behind them."""
    logits: Weights
    """[n, V]"""
    room: int = 0
    """Columns that may still be added at the end."""

    @property
    def columns(self) -> int:
        return len(self.tokens)

    @cached_property
    def classes(self) -> Classes:
        return by_class(self.automaton, self.logits)

    @cached_property
    def feasible(self) -> bool:
        """Whether some accepted text agrees with all that is placed."""
        return bool(self._best[0, self.automaton.start] > -np.inf)

    @property
    def weight(self) -> float:
        """The logarithm of the sum over all accepted texts of their tokens' exponentials."""
        return float(self._total[0, self.automaton.start])

    def likeliest(self) -> Ints:
        """[K]: the accepted tokens whose product of probabilities is highest; the lowest ids among equals."""
        return self._walk(self._best, self.classes.best, None)

    def drawn(self, temperature: float, chance: Reals) -> Ints:
        """[K]: accepted tokens as likely as their product of probabilities at a temperature.

        `chance` [K, 2] is even in [0, 1).
        """
        if temperature == 1.0:
            return self._walk(self._total, self.classes.mass, (temperature, chance))
        mass = by_class(self.automaton, self.logits, temperature).mass
        down = self._down(by_set(self.automaton.links, mass, total=True), total=True)
        return self._walk(down, mass, (temperature, chance))

    def confidence(self, string: Ints, read: Ints) -> Reals:
        """[m]: the probability of the tokens of a string [K] in the columns `read` [m].

        Over all accepted texts that agree with what is placed in the other columns.
        """
        return np.exp([self._sure(int(at), int(string[at])) for at in read])

    def certain(self, string: Ints) -> Flags:
        """[K]: columns whose text follows from what stands before them, however it is cut into tokens.

        Along a string [K], up to the first column that is neither placed nor certain.
        """
        automaton, state = self.automaton, self.automaton.start
        certain = np.zeros(self.columns, dtype=np.bool_)
        for at, token in enumerate(string.tolist()):
            certain[at] = 0 < automaton.sizes[token] <= automaton.certain[state]
            if self.tokens[at] == OPEN and not certain[at]:
                break
            if not (self.closed[at] and automaton.classes[token] == automaton.end_class):
                state = automaton.after(token, state)
        return certain

    def _sure(self, column: int, token: int) -> float:
        """The logarithm of one of these."""
        automaton, row = self.automaton, self.known[column]
        kind, here = int(automaton.classes[token]), automaton.edges_by(token)
        if kind == NEVER:
            return -np.inf
        up, down = self._up[column], self._total[column + 1]
        through = up[automaton.source[here]] + down[automaton.target[here]]
        if self.closed[column] and kind == automaton.end_class:
            through = up + down
        free = self._total[column]
        if self.tokens[column] != OPEN:
            free = self._before(down, self._masses[row], self.closed[column], total=True)
        whole = _sum(up + free)
        weight = max(float(self.logits[row, token]), LEAST)
        return min(0.0, _sum(through) + weight - whole) if whole > -np.inf else -np.inf

    @cached_property
    def _masses(self) -> Reals:
        """[n, S]"""
        return by_set(self.automaton.links, self.classes.mass, total=True)

    @cached_property
    def _best(self) -> Reals:
        return self._down(by_set(self.automaton.links, self.classes.best, total=False), total=False)

    @cached_property
    def _total(self) -> Reals:
        return self._down(self._masses, total=True)

    def _down(self, weights: Reals, *, total: bool) -> Reals:
        """[n, S] -> [K + 1, Q]: what follows each column from each state, summed or the best of it."""
        automaton = self.automaton
        down = np.empty((self.columns + 1, automaton.states))
        down[-1] = np.where(automaton.needed <= self.room, 0.0, -np.inf)
        for at in range(self.columns - 1, -1, -1):
            token, row = int(self.tokens[at]), int(self.known[at])
            if token != OPEN:
                down[at] = self._before_token(down[at + 1], token, self.closed[at])
            elif row < 0:
                down[at] = self._before(down[at + 1], None, self.closed[at], total=False)
            else:
                down[at] = self._before(down[at + 1], weights[row], self.closed[at], total=total)
        return down

    def _before_token(self, down: Reals, token: int, closed: bool) -> Reals:
        """[Q] -> [Q], one column earlier, where a token stands in it."""
        automaton = self.automaton
        if closed and automaton.classes[token] == automaton.end_class:
            return down
        before, here = np.full(automaton.states, -np.inf), automaton.edges_by(token)
        before[automaton.source[here]] = down[automaton.target[here]]
        return before

    def _before(self, down: Reals, weights: Reals | None, closed: bool, *, total: bool) -> Reals:
        """[Q], [S] -> [Q], one column earlier, where nothing stands in it."""
        automaton, links = self.automaton, self.automaton.links
        through = down.take(links.target)
        if weights is not None:
            through += weights.take(links.kinds)
        if closed:
            through[links.target == automaton.end] = -np.inf
        before = _reduced(through, links, automaton.states, total=total)
        if closed:
            stay = down if weights is None else down + weights[links.end]
            before = np.logaddexp(before, stay) if total else np.maximum(before, stay)
        return before

    @cached_property
    def _up(self) -> Reals:
        """[K + 1, Q]: what leads to each state before each column."""
        automaton, links = self.automaton, self.automaton.links_to
        up = np.full((self.columns + 1, automaton.states), -np.inf)
        up[0, automaton.start] = 0.0
        for at in range(self.columns):
            token, row, closed = int(self.tokens[at]), int(self.known[at]), self.closed[at]
            if token != OPEN:
                up[at + 1] = self._behind_token(up[at], token, closed)
                continue
            through = up[at].take(links.source)
            if row >= 0:
                through += self._masses[row].take(links.kinds)
            if closed:
                through[links.target == automaton.end] = -np.inf
            up[at + 1] = _reduced(through, links, automaton.states, total=row >= 0)
            if closed:
                stay = up[at] + (self._masses[row, links.end] if row >= 0 else 0.0)
                join = np.logaddexp if row >= 0 else np.maximum
                up[at + 1] = join(up[at + 1], stay)
        return up

    def _behind_token(self, up: Reals, token: int, closed: bool) -> Reals:
        """[Q] -> [Q], one column later, where a token stands in it."""
        automaton = self.automaton
        if closed and automaton.classes[token] == automaton.end_class:
            return up
        behind, here = np.full(automaton.states, -np.inf), automaton.edges_by(token)
        np.logaddexp.at(behind, automaton.target[here], up[automaton.source[here]])
        return behind

    def _walk(self, down: Reals, weights: Reals, draw: tuple[float, Reals] | None) -> Ints:
        """[K]: one string, from left to right: the best or a drawn one of what each state leads to."""
        automaton = self.automaton
        string, state = np.empty(self.columns, dtype=np.int64), automaton.start
        for at in range(self.columns):
            token, row = int(self.tokens[at]), int(self.known[at])
            if token == OPEN:
                span = slice(*automaton.edges_of[state : state + 2])
                kinds, targets = automaton.kind[span], automaton.target[span]
                if self.closed[at]:
                    targets = targets[kinds != automaton.end_class]
                    kinds = kinds[kinds != automaton.end_class]
                    kinds = np.append(kinds, np.int32(automaton.end_class))
                    targets = np.append(targets, np.int32(state))
                through = down[at + 1][targets]
                if row >= 0:
                    through = through + weights[row][kinds]
                edge = int(through.argmax()) if draw is None else _pick(through, draw[1][at, 0])
                token = self._token(row, int(kinds[edge]), at, draw)
                state = int(targets[edge])
            elif not (self.closed[at] and automaton.classes[token] == automaton.end_class):
                state = automaton.after(token, state)
            string[at] = token
        return string

    def _token(self, row: int, kind: int, at: int, draw: tuple[float, Reals] | None) -> int:
        """A token of a class: the likeliest, a drawn one, or any where nothing is known."""
        tokens = self.automaton.members(kind)
        if row < 0 or len(tokens) == 1:
            return int(tokens[0])
        if draw is None and len(tokens) > MANY:
            top = int(self.logits[row].argmax())
            if self.automaton.classes[top] == kind:
                return top
        logits = np.maximum(self.logits[row, tokens], LEAST)
        if draw is None:
            return int(tokens[logits.argmax()])
        return int(tokens[_pick(logits.astype(np.float64) / draw[0], draw[1][at, 1])])


def _pick(weights: Reals, chance: float) -> int:
    """One of some things with these logarithmic weights [n], by an even number in [0, 1)."""
    heights = np.exp(weights - weights.max()).cumsum()
    return int(
        np.searchsorted(heights, chance * heights[-1], side="right").clip(max=len(heights) - 1)
    )


def _sum(weights: Reals) -> float:
    """The logarithm of the sum of the exponentials of [n]."""
    top = float(weights.max(initial=-np.inf))
    return top if top == -np.inf else top + float(np.log(np.exp(weights - top).sum()))


def _reduced(through: Reals, links: Links, states: int, *, total: bool) -> Reals:
    """[L] -> [Q]: the best of each state's links, or the logarithm of the sum of all."""
    reduced = np.full(states, -np.inf)
    best = np.maximum.reduceat(through, links.start)
    if total:
        best[best == -np.inf] = 0.0
        through -= best.repeat(np.diff(links.start, append=len(through)))
        shares = np.exp(through.astype(np.float32))
        with np.errstate(divide="ignore"):
            best += np.log(np.add.reduceat(shares, links.start, dtype=np.float64))
    reduced[links.state] = best
    return reduced
