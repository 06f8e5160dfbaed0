"""Sums over the links of an automaton, column after column, in plain numbers wherever those are exact enough.

Axes: Q states, R of them with links, S sets of classes, L links.

A logarithm of a sum of exponentials for each state is dear: a maximum, an exponential for each link, a sum.
Multiplying is cheap, but products over many columns leave the range of floating point.  So each state has a
level, a logarithm that what it weighs is measured against, and a link is multiplied by what the levels of its
ends differ by.  While every factor lies within its range nothing in a product can vanish or overflow; where
one does not, levels are set anew.  Links that add next to nothing at such levels are cut.  A column for which
that does not do, because what is left of some state is little itself, is worked out in logarithms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from archer.passes.canvas import Flags, Ints, Reals
from archer.structure.links import Links

MASSES, LINKS, PARTS = 100.0, 350.0, 250.0
"""How far below the largest the logarithms of three factors may lie: e to the -700 is an ordinary number."""
LEAST_MASS, LEAST_PART = np.exp(-MASSES), np.exp(-PARTS)
ENOUGH = np.exp(46.0 - LINKS)
"""Of its level, what is left of a state that hides what was cut: that is 1e20 times less at the most."""


class Masses(NamedTuple):
    """What the sets of classes weigh in n columns."""

    logs: Reals
    """[n, S]"""
    parts: Reals
    """[n, S]: in plain numbers, divided by the largest of the column."""
    tops: Reals
    """[n]: the logarithm of that one."""
    plain: Flags
    """[n]: columns whose parts are all within their range."""

    @classmethod
    def of(cls, logs: Reals) -> Masses:
        """[n, S]"""
        tops = logs.max(axis=1)
        parts = np.exp(logs - tops[:, None])
        return cls(logs, parts, tops, parts.min(axis=1) > LEAST_MASS)


class _Plain(NamedTuple):
    """What states weigh in plain numbers: beside their levels, and divided by the exponential of `scale`."""

    parts: Reals
    """[Q]: at most 1; within their range, or 0 where nothing accepted is left."""
    scale: float


class _Levels(NamedTuple):
    """What states are measured against."""

    logs: Reals
    """[Q]: finite."""
    factors: Reals
    """[L]"""
    cut_near: Ints
    cut_far: Ints
    """The ends of links that were cut."""


class Sums:
    """One direction: from the links' `far` ends [L] to the states whose runs they come in."""

    def __init__(self, links: Links, far: Ints, states: int) -> None:
        self._links, self._far, self._states = links, far, states
        self._near = links.state.repeat(np.diff(links.start, append=len(far)))
        self._levels: _Levels | None = None
        self._through, self._masses = np.empty(len(far)), np.empty(len(far))
        """[L]: written anew for each column."""
        self._latest: tuple[Reals, Reals, float] | None = None
        """What was returned last, the same in plain numbers, and their scale."""

    def beyond(self, logs: Reals, masses: Masses, column: int) -> Reals:
        """[Q] -> [Q]: the logarithm of the sum over each state's links of far end times set."""
        if masses.plain[column]:
            for enter in (self._entered, self._entered_anew):
                plain = enter(logs)
                if plain is None:
                    continue
                sums = self._multiplied(plain.parts, masses.parts[column])
                if sums is not None:
                    return self._returned(sums, plain.scale + float(masses.tops[column]))
        through = logs.take(self._far, mode="clip")
        through += masses.logs[column].take(self._links.kinds, mode="clip")
        return log_sums(through, self._links, self._states)

    def _multiplied(self, parts: Reals, masses: Reals) -> Reals | None:
        """[Q], [S] -> [Q]: the sums; None where what was cut may matter to some state."""
        assert self._levels is not None
        levels = self._levels
        through = parts.take(self._far, mode="clip", out=self._through)
        through *= masses.take(self._links.kinds, mode="clip", out=self._masses)
        through *= levels.factors
        sums = _spread(np.add.reduceat(through, self._links.start), 0.0, self._links, self._states)
        if len(levels.cut_near):
            lacking = sums.take(levels.cut_near, mode="clip") < ENOUGH
            if lacking.any() and parts.take(levels.cut_far[lacking]).any():
                return None
        return sums

    def _returned(self, sums: Reals, scale: float) -> Reals:
        assert self._levels is not None
        with np.errstate(divide="ignore"):
            logs = np.log(sums)
        logs += self._levels.logs
        logs += scale
        self._latest = logs, sums, scale
        return logs

    def _entered(self, logs: Reals) -> _Plain | None:
        """In plain numbers, at the levels as they are; None where these do not do."""
        if self._latest is not None and self._latest[0] is logs:
            _, sums, scale = self._latest
            top = float(sums.max())
            if top == 0:
                return None
            parts = sums / top
            within = (parts.min() or parts[parts > 0].min()) >= LEAST_PART
            return _Plain(parts, scale + float(np.log(top))) if within else None
        return None if self._levels is None else _against(self._levels.logs, logs)

    def _entered_anew(self, logs: Reals) -> _Plain | None:
        """The same at levels that are what each state weighs; None where these do not do either.

        The level of a state that weighs nothing is the most that its links lead to.
        """
        self._levels = None
        finite = logs > -np.inf
        if not finite.any():
            return None
        levels = logs
        if not finite.all():
            around = best_of(logs, None, self._links, self._far, self._states)
            levels = np.where(finite, logs, np.maximum(around, logs[finite].min()))
        exponents = levels.take(self._far, mode="clip")
        exponents -= levels.take(self._near, mode="clip")
        if exponents.max() > LINKS:
            return None
        cut = np.flatnonzero(exponents < -LINKS)
        factors = np.exp(exponents)
        factors[cut] = 0.0
        self._levels = _Levels(levels, factors, self._near[cut], self._far[cut])
        return _against(levels, logs)


def _against(levels: Reals, logs: Reals) -> _Plain | None:
    relative = logs - levels
    top = float(relative.max())
    if top == -np.inf:
        return None
    relative -= top
    within = relative.min(initial=0.0, where=relative > -np.inf) >= -PARTS
    return _Plain(np.exp(relative), top) if within else None


def log_sums(through: Reals, links: Links, states: int) -> Reals:
    """[L] -> [Q]: the logarithm of the sum of the exponentials of each state's links."""
    best = np.maximum.reduceat(through, links.start)
    best[best == -np.inf] = 0.0
    through -= best.repeat(np.diff(links.start, append=len(through)))
    with np.errstate(divide="ignore"):
        best += np.log(np.add.reduceat(np.exp(through), links.start))
    return _spread(best, -np.inf, links, states)


def best_of(logs: Reals, weights: Reals | None, links: Links, far: Ints, states: int) -> Reals:
    """[Q], [S] -> [Q]: the best of each state's links: far end plus set, or far end alone."""
    through = logs.take(far, mode="clip")
    if weights is not None:
        through += weights.take(links.kinds, mode="clip")
    return _spread(np.maximum.reduceat(through, links.start), -np.inf, links, states)


def _spread(values: Reals, nothing: float, links: Links, states: int) -> Reals:
    """[R] -> [Q]: what each run has, and `nothing` for states without one."""
    if len(values) == states:
        return values
    every = np.full(states, nothing)
    every[links.state] = values
    return every
