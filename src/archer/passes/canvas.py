"""What the model is asked right now: prompt, response and scratch columns, and which logits are read.

Axes: B rows (samples of one prompt), L = P + G (+ scratch) columns, P prompt columns, G response columns.

Every row has the same columns: [ prompt | response | scratch ].  Different prompts are different canvases,
which share passes where they are batched.

What a column sees is the backbone's (`attention`), unless a decoder says more.  Under block-causal attention
what lies behind the block that holds the last column read is never fed.  A row may stop before the last
column: what lies behind its stop does not exist, so it is neither computed nor stored nor seen.
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
    """What a request starts from: one prompt, and the identity of each of its samples."""

    tokens: Ints
    """[P]"""
    mask: int
    """The id that means "nothing placed here"."""
    keys: tuple[int, ...]
    """Identity of each row for noise: depends on seed, prompt and the number of the sample alone."""
    eos: tuple[int, ...] = ()
    """The model's end-of-text ids."""
    ends: tuple[int, ...] = ()
    """All ids at which a reader stops: end of text and end of turn."""

    @classmethod
    def of(
        cls,
        ids: Sequence[int],
        mask: int,
        *,
        samples: int = 1,
        seed: int = 0,
        eos: Sequence[int] = (),
        ends: Sequence[int] = (),
        first: int = 0,
    ) -> Prompt:
        """Some samples of a prompt, each with its own noise key; `first` is the number of the first one."""
        keys = []
        for sample in range(first, first + samples):
            digest = hashlib.blake2b(repr((seed, tuple(ids), sample)).encode(), digest_size=8)
            keys.append(int.from_bytes(digest.digest(), "big") >> 1)
        return cls(
            tokens=np.array(ids, dtype=np.int64),
            mask=mask,
            keys=tuple(keys),
            eos=tuple(eos),
            ends=tuple(ends),
        )

    @property
    def columns(self) -> int:
        return len(self.tokens)

    @property
    def rows(self) -> int:
        return len(self.keys)

    def before(self, response: Ints) -> Ints:
        """[B, G] -> [B, P + G]: the prompt in front of every row."""
        tokens = np.empty((len(response), self.columns + response.shape[1]), dtype=np.int64)
        tokens[:, : self.columns] = self.tokens
        tokens[:, self.columns :] = response
        return tokens

    def select(self, rows: Sequence[int]) -> Prompt:
        return replace(self, keys=tuple(self.keys[row] for row in rows))


@dataclass(frozen=True)
class Canvas:
    """One question to the model, row by row; laid out by a decoder, read by a policy and by `forward`."""

    tokens: Ints
    """[B, L]"""
    response: slice
    """The columns that can be revised; everything before is prompt, everything behind is scratch."""
    mask: int
    """The id that means "nothing placed here"."""
    block: Ints
    """[B, 2]: first and one-past-last response column that is being decoded, per row."""
    reads: Flags
    """[B, L]: columns whose logits the decoder will look at."""
    positions: Ints | None = None
    """[B, L] when scratch repeats positions; None means that a column is its position."""
    visible: Flags | None = None
    """[B, L, L], query by key, a rule of the decoder on top of `attention`; None where it has none."""
    attention: AttentionKind = DENSE
    """How the model attends: the backbone's way, or blocks that the decoder names itself."""
    resting: Flags | None = None
    """[B, L]: response columns that the decoder lets rest, unread; kept until all is refreshed.  None: no."""
    wakes: bool = False
    """Whether what rests is read where a pass computes it anyway."""
    stops: Ints | None = None
    """[B]: one past the last column of each row; None where every row has them all."""

    @classmethod
    def plain(cls, prompt: Prompt, response: Ints, block: Ints, reads: Flags) -> Canvas:
        """Prompt and response without scratch.  `block` and `reads` [B, G] count from the response."""
        first = prompt.columns
        unread = np.zeros((len(response), first), dtype=np.bool_)
        return cls(
            tokens=prompt.before(response),
            response=slice(first, first + response.shape[1]),
            mask=prompt.mask,
            block=block + first,
            reads=np.concatenate((unread, reads), axis=1),
        )

    def under(self, attention: AttentionKind) -> Canvas:
        """The same question to a backbone that attends so; blocks that the decoder has named stay."""
        if isinstance(self.attention, Blocks) or self.attention == attention:
            return self
        return replace(self, attention=attention)

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

    @property
    def extent(self) -> int:
        """One past the last column that any row has."""
        return self.columns if self.stops is None else int(self.stops.max(initial=0))

    def existing(self, tokens: Ints) -> Ints:
        """[B, L]: `tokens`, and -1 where a row has no column."""
        return tokens if self.stops is None else np.where(self.everything(), tokens, -1)

    def everything(self) -> Flags:
        """[B, L]: every column that is seen."""
        if self.stops is None and not isinstance(self.attention, Blocks):
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
            found = found if self.stops is None else found & self.everything()
            return found if self.resting is None else found & ~self.resting
        first = self.response.start // self.attention.size * self.attention.size
        return self._from(first) & self.everything()

    def horizon(self) -> Ints:
        """[B]: one past the last column that a column read now can see."""
        if not isinstance(self.attention, Blocks):
            return np.full(self.rows, self.columns) if self.stops is None else self.stops
        read = self.columns - self.reads[:, ::-1].argmax(axis=1)
        last = np.where(
            self.reads.any(axis=1), np.maximum(self.block[:, 1], read), self.block[:, 1]
        )
        size = self.attention.size
        ends: Ints = ((last - 1) // size + 1) * size
        return np.minimum(ends, self.columns)

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
            block=self.block[chosen],
            reads=self.reads[chosen],
            positions=None if self.positions is None else self.positions[chosen],
            visible=None if self.visible is None else self.visible[chosen],
            resting=None if self.resting is None else self.resting[chosen],
            stops=None if self.stops is None else self.stops[chosen],
        )
