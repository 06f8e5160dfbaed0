"""Which texts are accepted, byte by byte: the automaton of a regular expression over UTF-8.

Axes: S states.  The expression is in the syntax of Rust's `regex`, and the whole text has to match.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archer.errors import BadRequest, extra, quoted

Flags = NDArray[np.bool_]
States = NDArray[np.int32]
DEAD = -1
BYTES = 256
MARK = "\0"
"""Put behind every text: the library follows a match no further, so that a longer text would be lost."""
SIGNS = "\n" + "".join(map(chr, range(32, 127)))
"""Some of them are put before every text: the library also looks for matches that begin later, and of counted
parts makes automata without end.  So a match begins behind signs of which every part lacks one, if it can be.
Which ones they are changes nothing but the time.
"""
SETS = re.compile(r"\\[dDwWsS]|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\.", re.DOTALL)
"""Sets of characters in an expression, and escaped ones, which are none."""
NESTED = re.compile(r"\[.*\[|&&|--|~~|\|\||\\[pPxuU]", re.DOTALL)
"""What Python reads in another way than Rust."""
PIECES = re.compile(r"\\.|\(\?[a-zA-Z-]+\)|\[\^?\]?|.", re.DOTALL)
"""Of an expression: what is escaped, flags, the beginnings of sets, and signs."""
STARTS, ENDS = ("^", r"\A"), ("$", r"\z")
PLACES = (*STARTS, *ENDS, r"\b", r"\B")
"""What stands for no text, but for where it begins, ends or has a word beside it."""
MOST_SETS = 200
"""Of an expression that are looked at."""
MOST_STATES = 20_000
"""Of an automaton over bytes, after merging those that accept the same."""
MOST_CHARACTERS = 1 << 20
"""Of a regular expression."""
ROWS = 4096
"""States whose bytes are compared at a time."""


NOTHING = "No text is accepted by this constraint, so nothing can be written."


class Empty(BadRequest):
    """What is asked for has no text; beside others that have some it is nothing to refuse."""


@dataclass(frozen=True)
class ByteAutomaton:
    """Deterministic and minimal; every state can be reached and leads to an accepted text."""

    next: States
    """[S, 256]; DEAD where no accepted text goes on so."""
    accepting: Flags
    """[S]"""
    start: int

    @property
    def states(self) -> int:
        return len(self.next)

    def after(self, text: bytes, state: int | None = None) -> int:
        """The state behind a text; DEAD where none that begins so is accepted."""
        here = self.start if state is None else state
        for byte in text:
            here = DEAD if here == DEAD else int(self.next[here, byte])
        return here

    def accepts(self, text: bytes) -> bool:
        state = self.after(text)
        return state != DEAD and bool(self.accepting[state])

    @cached_property
    def certain(self) -> NDArray[np.int64]:
        """[S]: bytes that follow in every accepted text."""
        ways = (self.next != DEAD).sum(axis=1)
        single = np.flatnonzero((ways == 1) & ~self.accepting)
        behind = self.next.max(axis=1)[single]
        certain = np.zeros(self.states, dtype=np.int64)
        while True:
            longer = certain[behind] + 1
            if (longer == certain[single]).all():
                return certain
            certain[single] = longer

    def forced(self) -> bytes:
        """What every accepted text begins with; all of it where there is one text only."""
        text, state = bytearray(), self.start
        for _ in range(int(self.certain[state])):
            text.append(int(np.flatnonzero(self.next[state] != DEAD)[0]))
            state = int(self.next[state, text[-1]])
        return bytes(text)


def of_regex(pattern: str) -> ByteAutomaton:
    """The automaton of an expression; refuses what is none, what accepts nothing and what is too large."""
    if len(pattern) > MOST_CHARACTERS:
        raise BadRequest(
            f"A regular expression of {len(pattern)} characters is too long: at most {MOST_CHARACTERS}."
        )
    index, alphabet = _library()
    front = _front(pattern)
    try:
        spelled = "".join(f"\\x{ord(sign):02x}" for sign in front)
        automaton = index(f"{spelled}(?:{_unanchored(pattern)}){MARK}", alphabet)
    except ValueError as error:
        if "no transitions" in str(error):
            raise Empty(NOTHING) from error
        raise BadRequest(
            f"The regular expression {quoted(pattern)} cannot be used: {_reason(error)}"
        ) from error
    edges: dict[int, dict[int, int]] = automaton.get_transitions()
    final: set[int] = automaton.get_final_states()
    names = {
        name: at for at, name in enumerate(sorted({automaton.get_initial_state(), *edges, *final}))
    }
    table = np.full((len(names), BYTES), DEAD, dtype=np.int32)
    accepting = np.zeros(len(names), dtype=np.bool_)
    for source, targets in edges.items():
        if source not in final:
            accepting[names[source]] = targets.pop(ord(MARK), None) in final
            table[names[source], list(targets)] = [names[target] for target in targets.values()]
    first = automaton.get_initial_state()
    for sign in front:
        first = edges[first][ord(sign)]
    return minimal(table, accepting, names[first])


def _front(pattern: str) -> str:
    """Signs of which every set of an expression lacks one; sets that hold all of them are passed over."""
    everything = re.search(r"\(\?[a-zA-Z]*s", pattern) is not None
    sets = {each for each in SETS.findall(pattern) if len(each) > 2 or each[-1] in "dDwWsS."}
    left = [_held(each, everything=everything) for each in sorted(sets)[:MOST_SETS]]
    front = ""
    while left := [held for held in left if held != SIGNS]:
        front += min(SIGNS, key=lambda sign: sum(sign in held for held in left))
        left = [held for held in left if front[-1] in held]
    return front or SIGNS[0]


def _held(text: str, *, everything: bool) -> str:
    """Which of the signs a set of characters holds; all of them where it cannot be told."""
    if NESTED.search(text) or (text == "." and everything):
        return SIGNS
    try:
        return "".join(re.findall(text, SIGNS))
    except re.error:
        return SIGNS


def minimal(table: States, accepting: Flags, start: int) -> ByteAutomaton:
    """The smallest automaton that accepts the same; refuses one that accepts nothing."""
    alive = _alive(table, accepting, start)
    if not alive[start]:
        raise Empty(NOTHING)
    kept = np.flatnonzero(alive)
    table, accepting = _renamed(table[kept], kept, len(alive)), accepting[kept]
    start = int(kept.searchsorted(start))
    columns = table[:, distinct(table)[0]]
    weights = mixed(np.arange(columns.shape[1])) | np.uint64(1)
    label = np.unique(accepting, return_inverse=True)[1].astype(np.int64)
    while True:
        known = np.append(mixed(label), np.uint64(0))
        signature = (known[columns] * weights).sum(axis=1) + mixed(known[:-1])
        refined = np.unique(signature, return_inverse=True)[1].astype(np.int64)
        if refined.max() == label.max():
            break
        label = refined
    first = np.unique(label, return_index=True)[1]
    if len(first) > MOST_STATES:
        raise too_large("states", len(first), MOST_STATES)
    merged = np.where(table[first] == DEAD, DEAD, label[table[first]]).astype(np.int32)
    return ByteAutomaton(merged, accepting[first], int(label[start]))


def too_large(what: str, count: int, most: int) -> BadRequest:
    """The sentence for a constraint that takes too much."""
    return BadRequest(
        f"The constraint is too large: it has {count} {what}, and at most {most} are allowed. "
        "Bound its numbers and lengths more tightly, or leave some of it out."
    )


def _alive(table: States, accepting: Flags, start: int) -> Flags:
    """[S]: states that the start leads to and from which a text is accepted."""
    source, byte = np.nonzero(table != DEAD)
    target = table[source, byte]
    reached = closure(np.arange(len(table)) == start, source, target)
    return reached & closure(accepting, target, source)


def closure(states: Flags, source: NDArray[Any], target: NDArray[Any]) -> Flags:
    """[S]: what can be reached along edges from `states`."""
    states = states.copy()
    order = np.argsort(source, kind="stable")
    target = target[order]
    first = np.searchsorted(source[order], np.arange(len(states) + 1))
    front = np.flatnonzero(states)
    while len(front):
        spans = [target[first[state] : first[state + 1]] for state in front.tolist()]
        reached = np.unique(np.concatenate(spans))
        front = reached[~states[reached]]
        states[front] = True
    return states


def _renamed(table: States, kept: NDArray[np.int64], states: int) -> States:
    """States by their number among those that are kept."""
    number = np.full(states + 1, DEAD, dtype=np.int32)
    number[kept] = np.arange(len(kept))
    return number[table]


def mixed(numbers: NDArray[Any]) -> NDArray[np.uint64]:
    """Numbers far apart for numbers close together (splitmix64), so that sums of them tell sets apart."""
    z = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def distinct(table: States) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of the columns of [S, n]: where the first of each kind stands, and [n] the kind of each."""
    sums = np.zeros(table.shape[1], dtype=np.uint64)
    for first in range(0, len(table), ROWS):
        rows = table[first : first + ROWS]
        weights = mixed(np.arange(first, first + len(rows))) | np.uint64(1)
        sums += (mixed(rows) * weights[:, None]).sum(axis=0)
    _, one, kind = np.unique(sums, return_index=True, return_inverse=True)
    return one, kind


def _unanchored(pattern: str) -> str:
    """Without the marks of a beginning and an end: the whole text has to match anyway.

    They are left out of the alternatives of the whole expression.  Elsewhere they are refused: the automaton
    goes on behind a text, so that whatever has such a mark would be lost.
    """
    kept: list[str] = []
    groups, sets, fresh = 0, 0, True
    pieces = PIECES.findall(pattern)
    for piece, behind in zip(pieces, [*pieces[1:], "|"], strict=False):
        if sets or piece.startswith("["):
            sets += piece.startswith("[") - (piece == "]")
        elif piece in PLACES:
            outermost = fresh if piece in STARTS else behind == "|" and piece in ENDS
            if groups or not outermost:
                raise BadRequest(
                    f"The regular expression {quoted(pattern)} says {piece} in its midst, which cannot be "
                    "kept. The whole text has to match anyway: leave it out."
                )
            continue
        else:
            groups += (piece == "(") - (piece == ")")
        kept.append(piece)
        flags = fresh and piece.startswith("(?")
        fresh = flags or (piece == "|" and not groups)
    return "".join(kept)


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = lines[-1] if lines else "it is not understood"
    return f"{reason.removeprefix('error: ')[:200].rstrip('.')}."


@cache
def _library() -> tuple[Any, Any]:
    """outlines-core's automata, and the bytes as their alphabet."""
    try:
        from outlines_core import Index, Vocabulary
    except ImportError as error:
        raise BadRequest(
            "Schemas, regular expressions and choices need the package outlines-core. "
            f"Install it: {extra('structured')}."
        ) from error
    return Index, Vocabulary(BYTES, {bytes([byte]): [byte] for byte in range(BYTES)})
