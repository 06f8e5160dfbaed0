"""The edges of a token automaton as recursions read them: those between the same two states as one.

Axes: E edges, L links.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archer.structure.byte_automaton import States, mixed

Ints = NDArray[np.int64]


class Links(NamedTuple):
    """Edges between the same two states taken as one: L links, whose classes are one of a few sets.

    They come in runs, by their sources or by their targets.
    """

    source: Ints
    """[L]"""
    target: Ints
    """[L]"""
    start: Ints
    """Where the run of each state begins that has one."""
    state: Ints
    """Which state that is; ascending."""
    kinds: Ints
    """[L]: the set of classes that lead from source to target."""
    classes: Ints
    """The classes of all sets, one after the other."""
    first: Ints
    """[number of sets + 1]: where the classes of each set begin."""
    end: int
    """The set of the end marks, which alone lead to the end."""

    def turned(self) -> Links:
        """In the order of their targets."""
        order = np.argsort(self.target, kind="stable")
        source, target, kinds = self.source[order], self.target[order], self.kinds[order]
        start, state = _runs(target)
        return self._replace(source=source, target=target, start=start, state=state, kinds=kinds)


def links_between(source: States, kind: States, target: States, end: int) -> Links:
    """Of edges [E] and the state behind an end mark, by their sources.

    Sets of classes with equal sums of 128-bit numbers are taken to be equal.
    """
    order = np.lexsort((kind, target, source))
    near, far, kinds_of = (each[order].astype(np.int64) for each in (source, target, kind))
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = (np.diff(near) != 0) | (np.diff(far) != 0)
    start = np.flatnonzero(fresh)
    numbers = mixed(kinds_of)
    sums = [np.add.reduceat(each, start) for each in (numbers, mixed(numbers))]
    _, one, kinds = np.unique(np.stack(sums), axis=1, return_index=True, return_inverse=True)
    sizes = np.diff(np.append(start, len(order)))[one]
    first = np.concatenate(([0], sizes.cumsum()))
    places = np.repeat(start[one] - first[:-1], sizes) + np.arange(first[-1])
    near, far = near[start], far[start]
    ends = int(kinds[np.flatnonzero(far == end)[0]])
    return Links(near, far, *_runs(near), kinds, kinds_of[places], first, ends)


def _runs(states: Ints) -> tuple[Ints, Ints]:
    """[L] ascending -> where each state begins, and which it is."""
    start = np.flatnonzero(np.diff(states, prepend=-1))
    return start, states[start]
