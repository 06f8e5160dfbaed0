"""Automata made of automata: one after the other, one or the other, both at once.

Axes: S states.  Results are minimal, so that large ones are made of small ones quickly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from archer.errors import BadRequest
from archer.structure.byte_automaton import (
    BYTES,
    DEAD,
    MOST_STATES,
    ByteAutomaton,
    States,
    distinct,
    minimal,
    too_large,
)

MOST_SUBSETS = 4 * MOST_STATES
"""States of an automaton before those that accept the same are merged."""


class Net:
    """Automata with links between them that take no byte; `automaton` is what they make together."""

    def __init__(self) -> None:
        self._tables: list[States] = []
        self._links: dict[int, list[int]] = {}
        self._size = 0

    def node(self) -> int:
        """A state without bytes of its own."""
        self._tables.append(np.full((1, BYTES), DEAD, dtype=np.int32))
        self._size += 1
        return self._size - 1

    def link(self, source: int, target: int) -> None:
        self._links.setdefault(source, []).append(target)

    def add(self, part: ByteAutomaton, target: int) -> int:
        """Put an automaton in, whose texts lead to a node; returns where it starts."""
        offset = self._size
        self._tables.append(np.where(part.next == DEAD, DEAD, part.next + offset))
        self._size += part.states
        for state in np.flatnonzero(part.accepting).tolist():
            self.link(offset + state, target)
        return offset + part.start

    def automaton(self, start: int, end: int) -> ByteAutomaton | None:
        """What leads from one state to another; None where nothing does."""
        table = np.concatenate(self._tables)
        closed: dict[int, frozenset[int]] = {}
        names: dict[frozenset[int], int] = {}
        waiting: list[frozenset[int]] = []
        rows: list[NDArray[np.int32]] = []
        accepting: list[bool] = []

        def closure(state: int) -> frozenset[int]:
            if state not in closed:
                states, front = {state}, [state]
                while front:
                    front = [
                        to for here in front for to in self._links.get(here, ()) if to not in states
                    ]
                    states.update(front)
                closed[state] = frozenset(states)
            return closed[state]

        def name(states: frozenset[int]) -> int:
            if states not in names:
                if len(names) >= MOST_SUBSETS:
                    raise too_large("states", len(names), MOST_SUBSETS)
                names[states] = len(names)
                waiting.append(states)
            return names[states]

        name(closure(start))
        at = 0
        while at < len(waiting):
            states = waiting[at]
            at += 1
            accepting.append(end in states)
            own = table[sorted(states)]
            own = own[(own != DEAD).any(axis=1)]
            row = np.full(BYTES, DEAD, dtype=np.int32)
            if len(own):
                one, kind = distinct(own)
                targets = [
                    frozenset().union(*(closure(to) for to in column if to != DEAD))
                    for column in own[:, one].T.tolist()
                ]
                each = np.array([name(to) if to else DEAD for to in targets], dtype=np.int32)
                row = each[kind]
            rows.append(row)
        return _living(np.stack(rows), np.array(accepting), 0)


def _living(table: States, accepting: NDArray[np.bool_], start: int) -> ByteAutomaton | None:
    return minimal(table, accepting, start) if accepting.any() else None


def literal(text: bytes) -> ByteAutomaton:
    """One text."""
    table = np.full((len(text) + 1, BYTES), DEAD, dtype=np.int32)
    table[np.arange(len(text)), list(text)] = np.arange(1, len(text) + 1)
    return ByteAutomaton(table, np.arange(len(text) + 1) == len(text), 0)


def one_of(texts: Iterable[bytes]) -> ByteAutomaton | None:
    """One of some texts; None where there are none."""
    nodes: dict[tuple[int, int], int] = {}
    ends = []
    for text in texts:
        here = 0
        for byte in text:
            here = nodes.setdefault((here, byte), len(nodes) + 1)
            if len(nodes) > MOST_SUBSETS:
                raise too_large("states", len(nodes), MOST_SUBSETS)
        ends.append(here)
    if not ends:
        return None
    table = np.full((len(nodes) + 1, BYTES), DEAD, dtype=np.int32)
    for (source, byte), target in nodes.items():
        table[source, byte] = target
    return minimal(table, np.isin(np.arange(len(table)), ends), 0)


def joined(parts: Sequence[ByteAutomaton]) -> ByteAutomaton:
    """One after the other."""
    net = Net()
    here = end = net.node()
    for part in reversed(parts):
        start = net.add(part, here)
        here = start
    made = net.automaton(here, end)
    assert made is not None
    return made


def either(parts: Iterable[ByteAutomaton | None]) -> ByteAutomaton | None:
    """One of them; None where there are none."""
    known = [part for part in parts if part is not None]
    if len(known) < 2:
        return known[0] if known else None
    net = Net()
    start, end = net.node(), net.node()
    for part in known:
        net.link(start, net.add(part, end))
    return net.automaton(start, end)


def listing(
    items: Sequence[ByteAutomaton], more: ByteAutomaton | None, least: int, most: int | None
) -> ByteAutomaton | None:
    """Some items and then any number of others, with commas between them, from `least` to `most`."""
    if most is not None and (least > most or most > MOST_STATES):
        if least > most:
            return None
        raise too_large("items", most, MOST_STATES)
    fixed = list(items[:most])
    copies = max(least, most or 0) - len(fixed)
    if more is not None:
        fixed += [more] * max(copies, 0)
    elif least > len(fixed):
        return None
    net = Net()
    start, end = net.node(), net.node()
    here = start
    for at, item in enumerate(fixed):
        if at >= least:
            net.link(here, end)
        behind = net.node()
        entry = net.add(item, behind)
        net.link(here, entry if at == 0 else net.add(literal(b", "), entry))
        here = behind
    net.link(here, end)
    if more is not None and most is None:
        again = net.node()
        entry = net.add(more, again)
        comma = net.add(literal(b", "), entry)
        net.link(here, comma if fixed else entry)
        net.link(again, comma)
        net.link(again, end)
    return net.automaton(start, end)


def members(
    parts: Sequence[tuple[ByteAutomaton, bool]], more: ByteAutomaton | None, *, empty: bool
) -> ByteAutomaton | None:
    """Members in their order, some of which may be left out, and then any number of others.

    Without `empty` there is at least one.
    """
    net = Net()
    start, end = net.node(), net.node()
    fresh, begun = start, net.node()
    for part, needed in parts:
        behind = net.node()
        entry = net.add(part, behind)
        comma = net.add(literal(b", "), entry)
        net.link(fresh, entry)
        net.link(begun, comma)
        later = net.node()
        if not needed:
            net.link(fresh, later)
            net.link(begun, behind)
        fresh, begun = later, behind
    if more is not None:
        again = net.node()
        entry = net.add(more, again)
        comma = net.add(literal(b", "), entry)
        net.link(fresh, entry)
        net.link(begun, comma)
        net.link(again, comma)
        net.link(again, end)
    net.link(begun, end)
    if empty:
        net.link(fresh, end)
    return net.automaton(start, end)


def both(one: ByteAutomaton, other: ByteAutomaton) -> ByteAutomaton | None:
    """What both accept; None where that is nothing."""
    return _product(one, other, but_not=False)


def without(one: ByteAutomaton, other: ByteAutomaton) -> ByteAutomaton | None:
    """What the first accepts and the other does not."""
    return _product(one, other, but_not=True)


def _product(one: ByteAutomaton, other: ByteAutomaton, *, but_not: bool) -> ByteAutomaton | None:
    """Both side by side; the other may be dead where its texts are left out."""
    width = other.states + 1
    ahead = np.vstack((other.next, np.full((1, BYTES), DEAD, dtype=np.int32)))
    known = np.array([one.start * width + other.start])
    front, tables = known, []
    while len(front):
        first, second = front // width, front % width
        left, right = one.next[first].astype(np.int64), ahead[second].astype(np.int64)
        dead = left == DEAD if but_not else (left == DEAD) | (right == DEAD)
        code = left * width + np.where(right == DEAD, other.states, right)
        code[dead] = DEAD
        tables.append(code)
        front = np.setdiff1d(code[~dead], known)
        known = np.concatenate((known, front))
        if len(known) > MOST_SUBSETS:
            raise too_large("states", len(known), MOST_SUBSETS)
    order = np.argsort(known)
    codes = np.concatenate(tables)
    place = order[np.searchsorted(known[order], codes.clip(min=0)).clip(max=len(order) - 1)]
    table = np.where(codes == DEAD, DEAD, place).astype(np.int32)
    of_other = np.append(other.accepting, False)[known % width]
    accepting = one.accepting[known // width] & (~of_other if but_not else of_other)
    return _living(table, accepting, 0)


def refuse_nothing(made: ByteAutomaton | None, what: str) -> ByteAutomaton:
    """The automaton, if anything is accepted at all."""
    if made is None:
        raise BadRequest(f"Nothing is accepted by this {what}, so nothing can be written.")
    return made
