"""What the model is asked right now: prompt, response and scratch columns, and which logits are read.

Axes: B rows (sequences), L = P + G (+ scratch) columns, P prompt columns, G response columns.

Prompts of unequal length end at the same column, so the response is the same columns in every row:
[ nothing | prompt | response | scratch ].  Columns before a row's `start` do not exist: they are never
computed, stored or attended to.

What a column sees is the backbone's (`attention`), unless a decoder says more.  Under block-causal attention
what lies behind the block that holds the last column read is never fed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from archer.network.shape import DENSE, AttentionKind, PromptFirst
from archer.network.shape import Blocks as Blocks

Ints = NDArray[np.int64]
"""Token ids, columns, counts."""
Flags = NDArray[np.bool_]
Reals = NDArray[np.float64]
"""Probabilities and scores; NaN where nothing is known."""


class Scope(IntEnum):
    """Which response columns are meant; a decoder reads one scope, a policy always answers another."""

    MASKS = 0
    """Columns of the current block with nothing placed."""
    BLOCK = 1
    """Every column of the current block."""
    RESPONSE = 2
    """Every column of the response."""


@dataclass(frozen=True)
class Prompt:
    """The fixed part of every row, and the two facts about a row that no tensor holds."""

    tokens: Ints
    """[B, P]; columns before `starts` hold the mask id and are never looked at."""
    starts: tuple[int, ...]
    """First real column of each row."""
    mask: int
    """The id that means "nothing placed here"."""
    keys: tuple[int, ...]
    """Identity of each row for noise: depends on seed, prompt and repetition, not on the batch."""
    eos: tuple[int, ...] = ()
    """The model's end-of-text ids."""
    ends: tuple[int, ...] = ()
    """All ids at which a reader stops: end of text and end of turn."""
    groups: tuple[int, ...] = ()
    """Equal numbers for rows with the same prompt."""

    @classmethod
    def of(
        cls,
        prompts: Sequence[Sequence[int]],
        mask: int,
        *,
        seed: int = 0,
        eos: Sequence[int] = (),
        ends: Sequence[int] = (),
        first: int = 0,
    ) -> Prompt:
        """Lay id lists side by side; the n-th repetition of a prompt gets its own noise key.

        `first` is the number of the first repetition, for rows that go on where other rows left off.
        """
        width = max(len(prompt) for prompt in prompts)
        padded = [[mask] * (width - len(prompt)) + list(prompt) for prompt in prompts]
        seen: dict[tuple[int, ...], int] = {}
        keys = []
        for prompt in map(tuple, prompts):
            repetition = seen[prompt] = seen.get(prompt, first - 1) + 1
            digest = hashlib.blake2b(repr((seed, prompt, repetition)).encode(), digest_size=8)
            keys.append(int.from_bytes(digest.digest(), "big") >> 1)
        return cls(
            tokens=np.array(padded, dtype=np.int64),
            starts=tuple(width - len(prompt) for prompt in prompts),
            mask=mask,
            keys=tuple(keys),
            eos=tuple(eos),
            ends=tuple(ends),
            groups=tuple(list(seen).index(prompt) for prompt in map(tuple, prompts)),
        )

    @property
    def columns(self) -> int:
        return int(self.tokens.shape[1])

    @property
    def lengths(self) -> Ints:
        """[B]: tokens of each row."""
        return self.columns - np.array(self.starts)

    def select(self, rows: Sequence[int]) -> Prompt:
        return replace(
            self,
            tokens=self.tokens[list(rows)],
            starts=tuple(self.starts[row] for row in rows),
            keys=tuple(self.keys[row] for row in rows),
            groups=tuple(self.groups[row] for row in rows),
        )


@dataclass(frozen=True)
class Canvas:
    """One question to the model, row by row; laid out by a decoder, read by a policy and by `forward`."""

    tokens: Ints
    """[B, L]"""
    starts: tuple[int, ...]
    """First real column of each row."""
    response: slice
    """The columns that can be revised; everything before is prompt, everything behind is scratch."""
    mask: int
    """The id that means "nothing placed here"."""
    block: Ints
    """[B, 2]: first and one-past-last response column that is being decoded, per row."""
    reads: Flags
    """[B, L]: columns whose logits the decoder will look at."""
    positions: Ints | None = None
    """[B, L] when scratch repeats positions; None means column minus start."""
    visible: Flags | None = None
    """[B, L, L], query by key, a rule of the decoder on top of `attention`; None where it has none."""
    attention: AttentionKind = DENSE
    """How the model attends: the backbone's way, or blocks that the decoder names itself."""
    resting: Flags | None = None
    """[B, L]: response columns that the decoder lets rest, unread; kept until all is refreshed.  None: no."""

    @classmethod
    def plain(cls, prompt: Prompt, response: Ints, block: Ints, reads: Flags) -> Canvas:
        """Prompt and response without scratch.  `block` and `reads` [B, G] count from the response."""
        first = prompt.columns
        unread = np.zeros(prompt.tokens.shape, dtype=np.bool_)
        return cls(
            tokens=np.concatenate((prompt.tokens, response), axis=1),
            starts=prompt.starts,
            response=slice(first, first + response.shape[1]),
            mask=prompt.mask,
            block=block + first,
            reads=np.concatenate((unread, reads), axis=1),
        )

    def under(self, attention: AttentionKind) -> Canvas:
        """The same question to a backbone that attends so; blocks that the decoder has named stay."""
        return self if isinstance(self.attention, Blocks) else replace(self, attention=attention)

    @property
    def rows(self) -> int:
        return len(self.tokens)

    @property
    def columns(self) -> int:
        return int(self.tokens.shape[1])

    @property
    def exact(self) -> bool:
        """Nothing that a prompt cache keeps can see the response: such a cache never grows old."""
        if isinstance(self.attention, PromptFirst):
            return self.resting is None
        return isinstance(self.attention, Blocks)

    def everything(self) -> Flags:
        """[B, L]: every column that is seen.  Those before a row's start are dropped when it is laid out."""
        if not isinstance(self.attention, Blocks):
            return np.ones(self.tokens.shape, dtype=np.bool_)
        fed: Flags = np.arange(self.columns) < self.horizon()[:, None]
        return fed

    def revisable(self) -> Flags:
        """[B, L]: response and scratch, all that a rollback decoder can change; without what rests.

        Under block-causal attention, with the prompt tokens of the block in which the response begins: they
        see it, and no earlier column does.
        """
        if not isinstance(self.attention, Blocks):
            found = self._from(self.response.start)
            return found if self.resting is None else found & ~self.resting
        first = self.block_starts(np.full(self.rows, self.response.start), self.attention.size)
        return (np.arange(self.columns) >= first[:, None]) & self.everything()

    def horizon(self) -> Ints:
        """[B]: one past the last column that a column read now can see."""
        if not isinstance(self.attention, Blocks):
            return np.full(self.rows, self.columns)
        read = self.columns - self.reads[:, ::-1].argmax(axis=1)
        last = np.where(
            self.reads.any(axis=1), np.maximum(self.block[:, 1], read), self.block[:, 1]
        )
        size = self.attention.size
        ends: Ints = self.block_starts(last - 1, size) + size
        return np.minimum(ends, self.columns)

    def block_starts(self, columns: Ints, size: int) -> Ints:
        """[B] -> [B]: first column of the attention block of `size` columns that each column is in."""
        starts = np.array(self.starts)
        first: Ints = starts + (columns - starts) // size * size
        return first

    def scratch(self) -> Flags:
        """[B, L]: columns that exist for this question only; every policy recomputes them."""
        return self._from(self.response.stop)

    def _from(self, first: int) -> Flags:
        chosen = np.zeros(self.tokens.shape, dtype=np.bool_)
        chosen[:, first:] = True
        return chosen

    def current(self) -> Flags:
        """[B, L]: the block being decoded."""
        columns = np.arange(self.columns)
        return (columns >= self.block[:, :1]) & (columns < self.block[:, 1:])

    def masked_in(self, tokens: Ints) -> Flags:
        """[B, L]: response columns at which `tokens` [B, L] has nothing placed."""
        columns = np.arange(self.columns)
        inside = (columns >= self.response.start) & (columns < self.response.stop)
        masked: Flags = inside & (tokens == self.mask)
        return masked

    def placed(self) -> Ints:
        """[B, G]: the response as it stands."""
        return self.tokens[:, self.response]

    def select(self, rows: Sequence[int]) -> Canvas:
        chosen = list(rows)
        return replace(
            self,
            tokens=self.tokens[chosen],
            starts=tuple(self.starts[row] for row in rows),
            block=self.block[chosen],
            reads=self.reads[chosen],
            positions=None if self.positions is None else self.positions[chosen],
            visible=None if self.visible is None else self.visible[chosen],
            resting=None if self.resting is None else self.resting[chosen],
        )
