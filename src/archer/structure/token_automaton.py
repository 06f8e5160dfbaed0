"""Which sequences of tokens are accepted: a byte automaton seen through a model's vocabulary.

Axes: V vocabulary, Q states, C classes of tokens, E edges, N nodes of a level of the trie of tokens.

Tokens that lead from every state to the same state are one class: the recursions run over classes, of which
there are a few hundred, and not over the vocabulary.  End marks are the last class and lead from accepted
texts into the last state, which they never leave.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from archer.errors import BadRequest
from archer.structure.byte_automaton import (
    DEAD,
    ByteAutomaton,
    Flags,
    States,
    closure,
    mixed,
    too_large,
)
from archer.structure.links import Ints, Links, links_between

NEVER = -1
"""The class of tokens that no accepted text holds."""
FAR = 1 << 30
"""Tokens that it takes to a text that cannot be reached."""
MOST_PAIRS = 1 << 26
"""States times nodes of the trie that are looked at."""
MOST_EDGES = 1 << 20
KEPT = 32
"""Automata that are remembered."""
MOST_REMEMBERED = 64 << 20
"""Bytes of them."""
TOGETHER = 64
"""States that are followed through the trie at a time: tokens that may follow are looked at for each."""


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Remembered(Generic[Key, Value]):
    """The things that were used last, by what they were made of, as many as fit; safe between threads."""

    def __init__(self, most: int, most_bytes: int = MOST_REMEMBERED) -> None:
        """`most_bytes` of arrays; one thing is remembered however large it is."""
        self._most, self._most_bytes, self._lock = most, most_bytes, threading.Lock()
        self._values: dict[Key, Value] = {}

    def get(self, key: Key, make: Callable[[Key], Value]) -> Value:
        value = self.known(key)
        if value is not None:
            return value
        made = make(key)
        with self._lock:
            self._values[key] = made
            while len(self._values) > 1 and not self._fits():
                del self._values[next(iter(self._values))]
        return made

    def known(self, key: Key) -> Value | None:
        """What is remembered of it; it was used now."""
        with self._lock:
            if key not in self._values:
                return None
            self._values[key] = value = self._values.pop(key)
            return value

    def _fits(self) -> bool:
        held = kept_bytes(tuple(self._values.items()))
        return len(self._values) <= self._most and held <= self._most_bytes


def kept_bytes(made: object) -> int:
    """Of the arrays and texts of a thing and of its parts, each once, and of what was worked out later."""
    return sum({id(part): size for part, size in _parts(made)}.values())


def _parts(made: object) -> Iterator[tuple[object, int]]:
    if isinstance(made, np.ndarray):
        yield made, made.nbytes
    elif isinstance(made, str | bytes):
        yield made, len(made)
    else:  # a list at once: another thread may work out more meanwhile
        inside = made if isinstance(made, tuple) else list(getattr(made, "__dict__", {}).values())
        for part in inside:
            yield from _parts(part)


@dataclass(frozen=True)
class _Level:
    """Nodes of the trie of tokens that are this many bytes deep."""

    byte: NDArray[np.uint8]
    """[N]"""
    children: Ints
    """[N + 1]: where the children of each begin in the next level."""
    spelled: States
    """[N]: number of the spelling that ends here, or -1."""


class Vocabulary:
    """The tokens that may stand in a text, by their bytes, and the end marks; made once for a model."""

    def __init__(self, spelled: Mapping[int, bytes], ends: Iterable[int], size: int) -> None:
        self.size = size
        self.ends = tuple(sorted(ends))
        pairs = sorted((text, id) for id, text in spelled.items() if text and id not in self.ends)
        self.ids: Ints = np.array([id for _, id in pairs], dtype=np.int64)
        """Tokens in the order of their bytes."""
        texts = sorted({text for text, _ in pairs})
        number = {text: at for at, text in enumerate(texts)}
        self.spelling: States = np.array([number[text] for text, _ in pairs], dtype=np.int32)
        """The number of each token's bytes among all spellings."""
        self.texts = texts
        self.sizes: States = np.zeros(size, dtype=np.int32)
        """[V]: bytes of each token."""
        self.sizes[self.ids] = [len(text) for text, _ in pairs]
        self.known: Remembered[Any, TokenAutomaton] = Remembered(KEPT)
        """Automata over these tokens."""

    @cached_property
    def levels(self) -> list[_Level]:
        """The trie of all spellings."""
        return _trie(self.texts)


@dataclass(frozen=True)
class TokenAutomaton:
    """Arrays alone; every state can be reached and can be completed.  The last state is the end."""

    classes: States
    """[V]: the class of each token, or NEVER."""
    tokens: Ints
    """[n]: tokens that have a class, in the order of their classes."""
    first: Ints
    """[C + 1]: where the tokens of each class begin."""
    source: States
    """[E]: ascending."""
    kind: States
    """[E]: the class of tokens that lead from source to target."""
    target: States
    """[E]"""
    accepting: Flags
    """[Q]"""
    certain: States
    """[Q]: bytes that follow in every accepted text."""
    sizes: States
    """[V]: bytes of each token; 0 for those that spell nothing."""
    start: int

    @property
    def states(self) -> int:
        return len(self.accepting)

    @property
    def end(self) -> int:
        """The state behind an end mark."""
        return self.states - 1

    @cached_property
    def ended(self) -> Flags:
        """[Q]: that state alone."""
        ended: Flags = np.arange(self.states) == self.end
        return ended

    @property
    def end_class(self) -> int:
        return len(self.first) - 2

    @cached_property
    def edges_of(self) -> Ints:
        """[Q + 1]: where the edges of each state begin."""
        return np.searchsorted(self.source, np.arange(self.states + 1))

    @cached_property
    def links(self) -> Links:
        """The edges between the same two states as one, in the order of their sources."""
        return links_between(self.source, self.kind, self.target, self.end)

    @cached_property
    def links_to(self) -> Links:
        """The same links in the order of their targets."""
        return self.links.turned()

    @cached_property
    def by_class(self) -> tuple[Ints, Ints]:
        """[E] the edges in the order of their classes, and [C + 1] where those of each class begin."""
        order = np.argsort(self.kind, kind="stable")
        return order, np.searchsorted(self.kind[order], np.arange(self.end_class + 2))

    @cached_property
    def all_tokens(self) -> States:
        """[V]: `tokens`, and behind them those without a class."""
        others = np.flatnonzero(self.classes == NEVER)
        return np.concatenate((self.tokens, others)).astype(np.int32)

    def members(self, kind: int) -> Ints:
        """The tokens of a class, ascending."""
        return self.tokens[self.first[kind] : self.first[kind + 1]]

    def edges_by(self, token: int) -> Ints:
        """The edges that a token takes, by number; none for one that may stand nowhere."""
        (edges, first), kind = self.by_class, int(self.classes[token])
        return edges[:0] if kind == NEVER else edges[first[kind] : first[kind + 1]]

    @cached_property
    def needed(self) -> Ints:
        """[Q]: the fewest tokens from each state to an accepted text, without an end mark."""
        needed = np.where(self.accepting, 0, FAR)
        while True:
            through = np.minimum.reduceat(needed[self.target], self.edges_of[:-1]) + 1
            shorter = np.minimum(needed, through)
            if (shorter == needed).all():
                return needed
            needed = shorter

    @property
    def shortest(self) -> int:
        """Tokens of the shortest accepted text; FAR where it cannot be spelled."""
        return int(self.needed[self.start])

    def after(self, token: int, state: int) -> int:
        """Where a token leads; DEAD where it may not stand."""
        span = slice(*self.edges_of[state : state + 2])
        here = np.flatnonzero(self.kind[span] == self.classes[token])
        return int(self.target[span][here[0]]) if len(here) else DEAD

    def accepts(self, tokens: Iterable[int]) -> bool:
        state = self.start
        for token in tokens:
            state = self.after(token, state)
            if state == DEAD:
                return False
        return bool(self.accepting[state])


def over_tokens(automaton: ByteAutomaton, vocabulary: Vocabulary) -> TokenAutomaton:
    """The texts of an automaton as tokens, however they are cut; refuses what no tokens can spell."""
    kind_of, one_of = _alike(automaton, vocabulary)
    source, kind, target = _edges(automaton, [vocabulary.texts[each] for each in one_of.tolist()])
    end, end_class = automaton.states, len(one_of)
    over = np.append(np.flatnonzero(automaton.accepting), end).astype(np.int32)
    source = np.concatenate((source, over))
    kind = np.concatenate((kind, np.full(len(over), end_class, dtype=np.int32)))
    target = np.concatenate((target, np.full(len(over), end, dtype=np.int32)))
    classes = np.full(vocabulary.size, NEVER, dtype=np.int32)
    classes[vocabulary.ids] = kind_of[vocabulary.spelling]
    classes[list(vocabulary.ends)] = end_class
    of_states = np.append(automaton.accepting, True), np.append(automaton.certain, 0)
    edges = source, kind, target
    return _trimmed(classes, edges, of_states, vocabulary.sizes, automaton.start)


def _alike(automaton: ByteAutomaton, vocabulary: Vocabulary) -> tuple[States, Ints]:
    """[n] the class of each spelling, or NEVER, and [C] one spelling of each class, ascending.

    Two spellings are alike where they lead from the same states to the same states; sets of 128-bit numbers
    with equal sums are taken to be equal.
    """
    if not vocabulary.texts:
        raise BadRequest("This model has no tokens that spell text.")
    sums = np.zeros((2, len(vocabulary.texts)), dtype=np.uint64)
    used = np.zeros(len(vocabulary.texts), dtype=np.bool_)
    looked_at = 0
    for source, spelling, target, pairs in _walked(automaton, vocabulary.levels):
        looked_at += pairs
        if looked_at > MOST_PAIRS:
            raise too_large("pairs of a state and a token", looked_at, MOST_PAIRS)
        pair = mixed(source.astype(np.uint64) << np.uint64(32) | target.astype(np.uint64))
        np.add.at(sums[0], spelling, pair)
        np.add.at(sums[1], spelling, mixed(pair))
        used[spelling] = True
    places = np.flatnonzero(used)
    first, second = sums[:, places]
    order = np.lexsort((second, first))
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = (np.diff(first[order]) != 0) | (np.diff(second[order]) != 0)
    number = np.cumsum(fresh, dtype=np.int64) - 1
    one = order[fresh]
    rank = np.empty(len(one), dtype=np.int32)
    rank[np.argsort(one)] = np.arange(len(one))
    kind = np.full(len(vocabulary.texts), NEVER, dtype=np.int32)
    kind[places[order]] = rank[number]
    return kind, places[np.sort(one)]


def _edges(automaton: ByteAutomaton, texts: Sequence[bytes]) -> tuple[States, States, States]:
    """From each state by each of some texts that may follow: states, texts by number, states."""
    none = np.zeros(0, dtype=np.int32)
    batches, edges = [(none, none, none)], 0
    for source, text, target, _ in _walked(automaton, _trie(texts)) if texts else ():
        edges += len(source)
        if edges > MOST_EDGES:
            raise too_large("transitions", edges, MOST_EDGES)
        batches.append((source, text, target))
    source, text, target = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return source, text, target


def _walked(
    automaton: ByteAutomaton, levels: Sequence[_Level]
) -> Iterator[tuple[States, States, States, int]]:
    """Along every text from every state, a few states at a time: states, texts by number, states.

    Also how many pairs of a state and a node were looked at.
    """
    for first in range(0, automaton.states, TOGETHER):
        starts = np.arange(first, min(first + TOGETHER, automaton.states), dtype=np.int32)
        roots = np.arange(len(levels[0].byte), dtype=np.int32)
        origin, node = np.repeat(starts, len(roots)), np.tile(roots, len(starts))
        state = origin
        for level in levels:
            pairs = len(node)
            state = automaton.next[state, level.byte[node]]
            alive = np.flatnonzero(state != DEAD)
            origin, node, state = origin[alive], node[alive], state[alive]
            ends = np.flatnonzero(level.spelled[node] >= 0)
            yield origin[ends], level.spelled[node[ends]], state[ends], pairs
            count = level.children[node + 1] - level.children[node]
            if not count.any():
                break
            below = np.repeat(level.children[node] - (count.cumsum() - count), count)
            node = (below + np.arange(len(below))).astype(np.int32)
            origin, state = np.repeat(origin, count), np.repeat(state, count)


def _trimmed(
    classes: States,
    edges: tuple[States, States, States],
    of_states: tuple[Flags, Ints],
    sizes: States,
    start: int,
) -> TokenAutomaton:
    """Without states that no tokens reach or complete, and classes that are of no use then."""
    accepting, certain = of_states
    source, kind, target = edges
    states = len(accepting)
    useful = closure(np.arange(states) == start, source, target)
    useful &= closure(accepting, target, source)
    if not useful[start]:
        raise BadRequest("No text of this constraint can be spelled with the tokens of this model.")
    useful[-1] = True
    kept = useful[source] & useful[target]
    number = np.cumsum(useful, dtype=np.int32) - 1
    end_class = kind[-1]
    live = np.unique(np.append(kind[kept], end_class))
    place = np.full(int(end_class) + 2, NEVER, dtype=np.int32)
    place[live] = np.arange(len(live))
    classes = place[classes]
    tokens = np.flatnonzero(classes != NEVER)
    tokens = tokens[np.argsort(classes[tokens], kind="stable")]
    source, kind, target = number[source[kept]], place[kind[kept]], number[target[kept]]
    order = np.lexsort((kind, source))
    return TokenAutomaton(
        classes=classes,
        tokens=tokens,
        first=np.searchsorted(classes[tokens], np.arange(len(live) + 1)),
        source=source[order],
        kind=kind[order],
        target=target[order],
        accepting=accepting[useful],
        certain=certain[useful].astype(np.int32),
        sizes=sizes,
        start=int(number[start]),
    )


def _trie(texts: Sequence[bytes]) -> list[_Level]:
    """Of texts in their order, level by level; the children of a node stand side by side."""
    lengths = np.array([len(text) for text in texts])
    joined = np.frombuffer(b"".join(texts), dtype=np.uint8)
    first = np.concatenate(([0], lengths.cumsum()[:-1])) if len(lengths) else lengths
    common = np.array([0, *(_common(a, b) for a, b in pairwise(texts))])
    made, nodes = [], [np.flatnonzero((lengths > 0) & (common <= 0))]
    for depth in range(max(map(len, texts), default=0)):
        here = nodes[-1]
        below = np.flatnonzero((lengths > depth + 1) & (common <= depth + 1))
        ends = np.where(lengths[here] == depth + 1, here, -1).astype(np.int32)
        children = np.searchsorted(below, np.append(here, len(lengths)))
        made.append(_Level(joined[first[here] + depth], children, ends))
        nodes.append(below)
    return made


def _common(one: bytes, other: bytes) -> int:
    """Bytes that two texts begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
