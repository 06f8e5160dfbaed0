"""All accepted ways to fill a canvas, weighed by a pass: the best, a drawn one, and how sure columns are.

Axes: K columns, n of them with logits, Q states, C classes, S sets of classes, L links.

Exact recursions over a token automaton, in logarithms: `down[i, q]` weighs what may follow from state q in
column i, `up[i, q]` what may come before it.  A column with a token in it admits that token.  One that nobody
reads says what is possible and not how likely: it adds nothing, and takes the best where others take the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from archer.passes.canvas import Flags, Ints, Reals
from archer.passes.reduction import FAINTEST
from archer.structure.links import Links
from archer.structure.sums import MASSES, Masses, Sums, best_of
from archer.structure.token_automaton import NEVER, TokenAutomaton

OPEN = -1
"""Stands for the token of a column that is to be filled."""
LEAST = -1e4
"""The lowest logit; what a method rules out may still be the only way to complete a text."""
MOST = 70.0
"""A logit up to which the exponentials of a whole vocabulary have a sum in float32 as they are."""
FAINT = 1e-26
"""Of the highest probability of a column: what is below it is not told apart well by exponentials."""
ROWS = 8
"""Columns whose logits are reduced at a time; more would not stay in a core's cache."""
SET_ROWS = 16
"""The same for columns whose classes are."""
MANY = 1 << 14
"""Tokens of a class of which the best is found sooner by what it weighs, among all tokens."""
Weights = NDArray[np.float32]


class Classes(NamedTuple):
    """The logits of n columns by class of tokens."""

    best: Reals
    """[n, C]: the highest of each class."""
    mass: Reals
    """[n, C]: the logarithm of the sum of their exponentials."""
    others: Reals
    """[n]: the highest of tokens without a class."""


def by_class(automaton: TokenAutomaton, logits: Weights, temperature: float = 1.0) -> Classes:
    """[n, V] -> Classes

    One exponential per logit, below the highest of its column where that is not small enough as it is;
    classes so far below it that little of them is left are reduced once more by themselves.
    """
    start, count = automaton.first[:-1], len(automaton.tokens)
    values, tokens = torch.from_numpy(logits), torch.from_numpy(automaton.all_tokens)
    best, mass = np.empty((len(logits), len(start))), np.empty((len(logits), len(start)))
    others = np.full(len(logits), -np.inf)
    space = torch.empty(ROWS, len(tokens))
    for at in range(0, len(logits), ROWS):
        here = slice(at, at + ROWS)
        rows = values[here]
        every = torch.index_select(rows, 1, tokens, out=space[: len(rows)]).numpy()
        others[here] = every[:, count:].max(axis=1, initial=-np.inf)
        own = torch.from_numpy(every[:, :count])
        if temperature != 1.0:
            own /= temperature
        highest = np.maximum.reduceat(own.numpy(), start, axis=1).clip(min=LEAST / temperature)
        top = highest.max(axis=1, keepdims=True)
        if top.max() > MOST or top.min() < 0:
            own -= torch.from_numpy(top)
        else:
            top = np.zeros_like(top)
        lowest = torch.from_numpy(np.maximum(LEAST / temperature - top, FAINTEST[own.dtype]))
        shares = own.clamp_(min=lowest).exp_().numpy()
        best[here] = highest
        mass[here] = np.log(np.add.reduceat(shares, start, axis=1)) + top
    faint = best < best.max(axis=1, keepdims=True) + math.log(FAINT)
    for kind in np.flatnonzero(faint.any(axis=0)).tolist():
        faded, members = np.flatnonzero(faint[:, kind]), automaton.members(kind)
        few = np.maximum(logits[np.ix_(faded, members)], LEAST) / np.float32(temperature)
        best[faded, kind] = few.max(axis=1)
        mass[faded, kind] = np.logaddexp.reduce(few, axis=1)
    return Classes(best, mass, others)


def best_by_set(links: Links, best: Reals) -> Reals:
    """[n, C] -> [n, S]: the best of the classes of each set."""
    start, kept = links.first[:-1], np.empty((len(best), len(links.first) - 1))
    for at in range(0, len(best), SET_ROWS):
        own = best[at : at + SET_ROWS].take(links.classes, axis=1, mode="clip")
        kept[at : at + SET_ROWS] = np.maximum.reduceat(own, start, axis=1)
    return kept


def masses_by_set(links: Links, mass: Reals) -> Masses:
    """[n, C]: the sums over the classes of each set, in plain numbers where nothing vanishes so."""
    start, sizes = links.first[:-1], np.diff(links.first)
    logs = np.empty((len(mass), len(start)))
    for at in range(0, len(mass), SET_ROWS):
        rows = mass[at : at + SET_ROWS]
        top = rows.max(axis=1, keepdims=True)
        if (rows - top).min() > -MASSES:
            own = np.exp(rows - top).take(links.classes, axis=1, mode="clip")
        else:
            own = rows.take(links.classes, axis=1, mode="clip")
            top = np.maximum.reduceat(own, start, axis=1)
            own = np.exp(own - top.repeat(sizes, axis=1))
        logs[at : at + SET_ROWS] = np.log(np.add.reduceat(own, start, axis=1)) + top
    return Masses.of(logs)


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

    @property
    def sound(self) -> bool:
        """No NaN and no infinity among the highest logits of columns, nor above them."""
        highest = self.classes.best.max(axis=1)
        sound = (highest > LEAST) & (highest < np.inf) & (self.classes.others < np.inf)
        return bool(sound.all())

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
        down = self._down(partial(self._sum_before, masses_by_set(self.automaton.links, mass)))
        return self._walk(down, mass, (temperature, chance))

    def confidence(self, string: Ints, read: Ints) -> Reals:
        """[m]: the probability of the tokens of a string [K] in the columns `read` [m].

        Over all accepted texts that agree with what is placed in the other columns.
        """
        tokens, rows = string[read], self.known[read]
        weights = np.maximum(self.logits[rows, tokens], LEAST)
        whole = np.array([self._whole(int(at)) for at in read])
        with np.errstate(invalid="ignore"):
            sure = np.exp(np.minimum(self._through(read, tokens) + weights - whole, 0.0))
        return np.where(whole > -np.inf, sure, 0.0)

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

    def _whole(self, column: int) -> float:
        """The logarithm of the sum over all texts that agree with what is placed in other columns."""
        if self.tokens[column] == OPEN and self._all_read:
            return self.weight
        free = self._total[column]
        if self.tokens[column] != OPEN:
            row, down = int(self.known[column]), self._total[column + 1]
            free = self._sum_before(self._masses, row, down, self.closed[column])
        return _sum(self._up[column] + free)

    def _through(self, columns: Ints, tokens: Ints) -> Reals:
        """[m] each -> [m]: what leads to a token in a column and follows it, without the token itself."""
        automaton, (edges, first) = self.automaton, self.automaton.by_class
        kinds = automaton.classes[tokens]
        counts = np.where(kinds == NEVER, 0, first[kinds + 1] - first[kinds])
        place = np.arange(len(tokens)).repeat(counts)
        nth = np.arange(len(place)) - (counts.cumsum() - counts)[place]
        here = edges[first[kinds][place] + nth]
        through = self._up[columns[place], automaton.source[here]]
        through += self._total[columns[place] + 1, automaton.target[here]]
        best = np.full(len(tokens), -np.inf)
        np.maximum.at(best, place, through)
        shares = np.exp(through - np.where(best > -np.inf, best, 0.0)[place])
        with np.errstate(divide="ignore"):
            best += np.log(np.bincount(place, weights=shares, minlength=len(tokens)))
        for at in np.flatnonzero(self.closed[columns] & (kinds == automaton.end_class)).tolist():
            column = int(columns[at])
            best[at] = _sum(self._up[column] + self._total[column + 1])
        return best

    @cached_property
    def _all_read(self) -> bool:
        """Sums over all texts are then the same from every column."""
        return bool(((self.tokens != OPEN) | (self.known >= 0)).all())

    @cached_property
    def _masses(self) -> Masses:
        return masses_by_set(self.automaton.links, self.classes.mass)

    @cached_property
    def _best(self) -> Reals:
        best = best_by_set(self.automaton.links, self.classes.best)
        return self._down(lambda row, down, closed: self._best_before(best[row], down, closed))

    @cached_property
    def _total(self) -> Reals:
        return self._down(partial(self._sum_before, self._masses))

    def _down(self, before: Callable[[int, Reals, np.bool_], Reals]) -> Reals:
        """[K + 1, Q]: what follows each column from each state; `before` works out a column with logits."""
        automaton = self.automaton
        down = np.empty((self.columns + 1, automaton.states))
        down[-1] = here = np.where(automaton.needed <= self.room, 0.0, -np.inf)
        for at in range(self.columns - 1, -1, -1):
            token, row = int(self.tokens[at]), int(self.known[at])
            if token != OPEN:
                here = self._before_token(here, token, self.closed[at])
            elif row < 0:
                here = self._best_before(None, here, self.closed[at])
            else:
                here = before(row, here, self.closed[at])
            down[at] = here
        return down

    def _before_token(self, down: Reals, token: int, closed: np.bool_) -> Reals:
        """[Q] -> [Q], one column earlier, where a token stands in it."""
        automaton = self.automaton
        if closed and automaton.classes[token] == automaton.end_class:
            return down
        before, here = np.full(automaton.states, -np.inf), automaton.edges_by(token)
        before[automaton.source[here]] = down[automaton.target[here]]
        return before

    @cached_property
    def _backward(self) -> Sums:
        links = self.automaton.links
        return Sums(links, links.target, self.automaton.states)

    def _best_before(self, weights: Reals | None, down: Reals, closed: np.bool_) -> Reals:
        """[S], [Q] -> [Q], one column earlier, where nothing stands in it."""
        automaton, links = self.automaton, self.automaton.links
        live = np.where(automaton.ended, -np.inf, down) if closed else down
        before = best_of(live, weights, links, links.target, automaton.states)
        if not closed:
            return before
        either: Reals = np.maximum(before, down if weights is None else down + weights[links.end])
        return either

    def _sum_before(self, masses: Masses, row: int, down: Reals, closed: np.bool_) -> Reals:
        """The same of all that may stand in it."""
        automaton = self.automaton
        live = np.where(automaton.ended, -np.inf, down) if closed else down
        before = self._backward.beyond(live, masses, row)
        if not closed:
            return before
        either: Reals = np.logaddexp(before, down + masses.logs[row, automaton.links.end])
        return either

    @cached_property
    def _up(self) -> Reals:
        """[K + 1, Q]: what leads to each state before each column."""
        automaton, links = self.automaton, self.automaton.links_to
        forward = Sums(links, links.source, automaton.states)
        up = np.full((self.columns + 1, automaton.states), -np.inf)
        up[0, automaton.start] = 0.0
        here = up[0].copy()
        for at in range(self.columns):
            token, row, closed = int(self.tokens[at]), int(self.known[at]), self.closed[at]
            if token != OPEN:
                here = self._behind_token(here, token, closed)
            else:
                before = here
                if row >= 0:
                    here = forward.beyond(before, self._masses, row)
                else:
                    here = best_of(before, None, links, links.source, automaton.states)
                if closed:
                    moved = np.where(automaton.ended, -np.inf, here)
                    if row >= 0:
                        here = np.logaddexp(moved, before + self._masses.logs[row, links.end])
                    else:
                        here = np.maximum(moved, before)
            up[at + 1] = here
        return up

    def _behind_token(self, up: Reals, token: int, closed: np.bool_) -> Reals:
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
            equal = np.flatnonzero(self.logits[row] == np.float32(self.classes.best[row, kind]))
            equal = equal[self.automaton.classes[equal] == kind]
            if len(equal):
                return int(equal[0])
        logits = np.maximum(self.logits[row].take(tokens, mode="clip"), LEAST)
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
