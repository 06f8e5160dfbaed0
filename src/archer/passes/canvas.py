"""What the model is asked right now: prompt, response and scratch columns, and which logits are read.

Axes: B rows (samples of one prompt), L columns, P prompt columns, G open columns: those that a decoder fills.

Every row has the same columns: [ prompt | response | scratch ].  The response begins with the first column
that is open.  Mostly all of it is open; where text is given behind a gap, only the gaps are, and what is
given is kept with the prompt: computed when everything is, never read, never written.  A decoder counts the
open columns alone and does not know where they stand.  Different prompts are different canvases, which share
passes where they are batched.

What a column sees is the backbone's (`attention`), unless a decoder says more.  Under block-causal attention
what lies behind the block that holds the last column read is never fed.  A row may stop before the last
column: what lies behind its stop does not exist, so it is neither computed nor stored nor seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from archer.network.shape import DENSE, AttentionKind, PromptFirst
from archer.network.shape import Blocks as Blocks

Ints = NDArray[np.int64]
"""Token ids, columns, counts."""
Flags = NDArray[np.bool_]
Reals = NDArray[np.float64]
"""Probabilities and scores; NaN where nothing is known."""


def among(tokens: Ints, ids: Iterable[int]) -> Flags:
    """Which tokens are one of a few ids, without sorting anything."""
    flags = np.zeros(tokens.shape, dtype=np.bool_)
    for id in ids:
        flags |= tokens == id
    return flags


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
    given: Ints | None = None
    """The response as it is given, with the mask id in its gaps; None where nothing of it is."""
    allowed: Mapping[int, Tensor] = field(default_factory=dict)
    """Ids Long[n] that may stand in an open column, by its number; other columns are free."""
    constraint: object = None
    """What the response as a whole has to be: a `structure.constraint.Constraint`, or nothing."""

    @property
    def end_marks(self) -> tuple[int, ...]:
        """What our own rules take for the end of an answer: `ends`, or `eos` where nothing else is known."""
        return self.ends or self.eos

    @classmethod
    def of(
        cls,
        ids: Sequence[int],
        mask: int,
        *,
        given: Sequence[int | None] | None = None,
        allowed: Mapping[int, Tensor] | None = None,
        constraint: object = None,
        samples: int = 1,
        seed: int = 0,
        eos: Sequence[int] = (),
        ends: Sequence[int] = (),
        first: int = 0,
    ) -> Prompt:
        """Some samples of a prompt, each with its own noise key; `first` is the number of the first one.

        `given` has None for what is to be written.  Where it has nothing else the prompt is the same as
        without it.
        """
        behind = None if given is None or not any(token is not None for token in given) else given
        common = hashlib.blake2b(f"({seed!r}, {tuple(ids)!r}, ".encode(), digest_size=8)
        about = ")" if behind is None else f", {tuple(behind)!r})"
        keys = []
        for sample in range(first, first + samples):
            digest = common.copy()
            digest.update(f"{sample!r}{about}".encode())
            keys.append(int.from_bytes(digest.digest(), "big") >> 1)
        return cls(
            tokens=np.array(ids, dtype=np.int64),
            mask=mask,
            keys=tuple(keys),
            eos=tuple(eos),
            ends=tuple(ends),
            given=None
            if behind is None
            else np.array([mask if token is None else token for token in behind]),
            allowed=dict(allowed or {}),
            constraint=constraint,
        )

    @property
    def columns(self) -> int:
        return len(self.tokens)

    @property
    def rows(self) -> int:
        return len(self.keys)

    @cached_property
    def gaps(self) -> Ints | None:
        """[G]: where the open columns stand in the response; None where all of it is open."""
        return None if self.given is None else np.flatnonzero(self.given == self.mask)

    def among_given(self, values: NDArray[Any], given: NDArray[Any] | bool | float) -> NDArray[Any]:
        """[B, G] -> the same in the whole response, with these values where tokens are given."""
        if self.gaps is None or self.given is None:
            return values
        whole = np.empty((len(values), len(self.given)), dtype=values.dtype)
        whole[:] = given
        whole[:, self.gaps] = values
        return whole

    def response(self, written: Ints) -> Ints:
        """[B, G] -> the whole response: what is given, and in its gaps what is written."""
        return written if self.given is None else self.among_given(written, self.given)

    def before(self, written: Ints) -> Ints:
        """[B, G] -> [B, L]: the prompt in front of every row, and the given parts of the response."""
        response = self.response(written)
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
    """Everything before is prompt, everything behind is scratch."""
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
    anchored: bool = False
    """Whether it has rested since the last such pass, which then is all that it is made of."""
    stops: Ints | None = None
    """[B]: one past the last column of each row; None where every row has them all."""
    gaps: Ints | None = None
    """[G]: the open columns, where not all of the response is open; what is given is kept like the prompt."""
    allowed: Mapping[int, Tensor] = field(default_factory=dict)
    """Ids Long[n] that may stand at a position; at others any may."""

    @classmethod
    def plain(cls, prompt: Prompt, response: Ints, block: Ints, reads: Flags) -> Canvas:
        """Prompt and response without scratch.  `response`, `reads` [B, G] and `block` count open columns."""
        first, gaps = prompt.columns, prompt.gaps
        tokens = prompt.before(response)
        read = np.zeros(tokens.shape, dtype=np.bool_)
        if gaps is not None:
            block = np.stack((gaps[block[:, 0]], gaps[block[:, 1] - 1] + 1), axis=1)
            reads = prompt.among_given(reads, given=False)
        read[:, first:] = reads
        return cls(
            tokens=tokens,
            response=slice(first, tokens.shape[1]),
            mask=prompt.mask,
            block=block + first,
            reads=read,
            gaps=None if gaps is None else gaps + first,
            allowed={
                first + (at if gaps is None else int(gaps[at])): ids
                for at, ids in prompt.allowed.items()
            },
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
            return self.resting is None and self.gaps is None
        return isinstance(self.attention, Blocks)

    @property
    def extent(self) -> int:
        """One past the last column that any row has."""
        return self.columns if self.stops is None else int(self.stops.max(initial=0))

    def existing(self, tokens: Ints) -> Ints:
        """[B, L]: `tokens`, and -1 where a row has no column."""
        return tokens if self.stops is None else np.where(self.everything(), tokens, -1)

    @property
    def entire(self) -> bool:
        """Every row has every column, and sees them all."""
        return self.stops is None and not isinstance(self.attention, Blocks)

    def everything(self) -> Flags:
        """[B, L]: every column that is seen."""
        if self.entire:
            return np.ones(self.tokens.shape, dtype=np.bool_)
        fed: Flags = np.arange(self.columns) < self.horizon()[:, None]
        return fed

    @property
    def open(self) -> slice | Ints:
        """The columns that a decoder fills, as an index: the response without what is given."""
        return self.response if self.gaps is None else self.gaps

    @property
    def answers(self) -> Ints:
        """[A]: the columns whose logits a decoder may ask for: those that are open, then scratch."""
        if self.gaps is None:
            return np.arange(self.response.start, self.columns)
        return np.concatenate((self.gaps, np.arange(self.response.stop, self.columns)))

    def revisable(self) -> Flags:
        """[B, L]: open columns and scratch, all that a rollback decoder can change; without what rests.

        Under block-causal attention, with the prompt tokens of the block in which the response begins: they
        see it, and no earlier column does.
        """
        if not isinstance(self.attention, Blocks):
            columns = self._from(self.response.start)
            if self.gaps is not None:
                columns = self._opened() | self.scratch()
            columns = columns if self.stops is None else columns & self.everything()
            return columns if self.resting is None else columns & ~self.resting
        first = self.attention.start(self.response.start, self.response.start)
        return self._from(first) & self.everything()

    def horizon(self) -> Ints:
        """[B]: one past the last column that a column read now can see."""
        if not isinstance(self.attention, Blocks):
            return np.full(self.rows, self.columns) if self.stops is None else self.stops
        read = self.columns - self.reads[:, ::-1].argmax(axis=1)
        last = np.where(
            self.reads.any(axis=1), np.maximum(self.block[:, 1], read), self.block[:, 1]
        )
        ends = self.attention.stop(last - 1, self.response.start)
        return np.minimum(ends, self.columns)

    def scratch(self) -> Flags:
        """[B, L]: columns that exist for this question only; every policy recomputes them."""
        return self._from(self.response.stop)

    def _from(self, first: int) -> Flags:
        chosen = np.zeros(self.tokens.shape, dtype=np.bool_)
        chosen[:, first:] = True
        return chosen

    def _opened(self) -> Flags:
        """[B, L]: the columns that a decoder fills."""
        chosen = np.zeros(self.tokens.shape, dtype=np.bool_)
        chosen[:, self.open] = True
        return chosen

    def positions_of(self, row: int, columns: Ints) -> Ints:
        """[n] -> [n]: where columns of a row stand in the text."""
        return columns if self.positions is None else self.positions[row, columns]

    def current(self) -> Flags:
        """[B, L]: the block being decoded."""
        columns = np.arange(self.columns)
        inside: Flags = (columns >= self.block[:, :1]) & (columns < self.block[:, 1:])
        return inside if self.gaps is None else inside & self._opened()

    def masked_in(self, tokens: Ints) -> Flags:
        """[B, L]: open columns at which `tokens` [B, L] has nothing placed."""
        masked: Flags = self._opened() & (tokens == self.mask)
        return masked

    def placed(self) -> Ints:
        """[B, G]: the open columns as they stand."""
        return self.tokens[:, self.open]

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
