"""What the model is asked right now: prompt, response and scratch columns, and which logits are read.

Axes: B rows (sequences), L = P + G (+ scratch) columns, P prompt columns, G response columns.

Prompts of unequal length end at the same column, so the response is the same columns in every row:
[ nothing | prompt | response | scratch ].  Columns before a row's `start` do not exist: they are never
computed, stored or attended to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import torch
from torch import Tensor


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

    tokens: Tensor
    """Long[B, P]; columns before `starts` hold the mask id and are never looked at."""
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
        device: torch.device | None = None,
        eos: Sequence[int] = (),
        ends: Sequence[int] = (),
    ) -> Prompt:
        """Lay id lists side by side; the n-th repetition of a prompt gets its own noise key."""
        width = max(len(prompt) for prompt in prompts)
        padded = [[mask] * (width - len(prompt)) + list(prompt) for prompt in prompts]
        seen: dict[tuple[int, ...], int] = {}
        keys = []
        for prompt in map(tuple, prompts):
            repetition = seen[prompt] = seen.get(prompt, -1) + 1
            digest = hashlib.blake2b(repr((seed, prompt, repetition)).encode(), digest_size=8)
            keys.append(int.from_bytes(digest.digest(), "big") >> 1)
        return cls(
            tokens=torch.tensor(padded, dtype=torch.long, device=device),
            starts=tuple(width - len(prompt) for prompt in prompts),
            mask=mask,
            keys=tuple(keys),
            eos=tuple(eos),
            ends=tuple(ends),
            groups=tuple(list(seen).index(prompt) for prompt in map(tuple, prompts)),
        )

    @property
    def columns(self) -> int:
        return self.tokens.shape[1]

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

    tokens: Tensor
    """Long[B, L]"""
    starts: tuple[int, ...]
    """First real column of each row."""
    response: slice
    """The columns that can be revised; everything before is prompt, everything behind is scratch."""
    mask: int
    """The id that means "nothing placed here"."""
    block: Tensor
    """Long[B, 2]: first and one-past-last response column that is being decoded, per row."""
    reads: Tensor
    """Bool[B, L]: columns whose logits the decoder will look at."""
    positions: Tensor | None = None
    """Long[B, L] when scratch repeats positions; None means column minus start."""
    visible: Tensor | None = None
    """Bool[B, L, L], query by key, an extra attention rule; None means dense."""

    @classmethod
    def plain(cls, prompt: Prompt, response: Tensor, block: Tensor, reads: Tensor) -> Canvas:
        """Prompt and response without scratch.  `block` and `reads` [B, G] count from the response."""
        first = prompt.columns
        return cls(
            tokens=torch.cat((prompt.tokens, response), dim=1),
            starts=prompt.starts,
            response=slice(first, first + response.shape[1]),
            mask=prompt.mask,
            block=block + first,
            reads=torch.nn.functional.pad(reads, (first, 0)),
        )

    @property
    def rows(self) -> int:
        return self.tokens.shape[0]

    @property
    def columns(self) -> int:
        return self.tokens.shape[1]

    def everything(self) -> Tensor:
        """Bool[B, L]: every column.  Those before a row's start are dropped when the pass is laid out."""
        return torch.ones_like(self.tokens, dtype=torch.bool)

    def revisable(self) -> Tensor:
        """Bool[B, L]: response and scratch, all that a rollback decoder can change."""
        return self._from(self.response.start)

    def scratch(self) -> Tensor:
        """Bool[B, L]: columns that exist for this question only; every policy recomputes them."""
        return self._from(self.response.stop)

    def _from(self, first: int) -> Tensor:
        columns = torch.arange(self.columns, device=self.tokens.device)
        return (columns >= first).expand(self.rows, -1)

    def current(self) -> Tensor:
        """Bool[B, L]: the block being decoded."""
        columns = torch.arange(self.columns, device=self.tokens.device)
        return (columns >= self.block[:, :1]) & (columns < self.block[:, 1:])

    def masked_in(self, tokens: Tensor) -> Tensor:
        """Bool[B, L]: response columns at which `tokens` [B, L] has nothing placed."""
        columns = torch.arange(self.columns, device=tokens.device)
        inside = (columns >= self.response.start) & (columns < self.response.stop)
        masked: Tensor = inside & (tokens == self.mask)
        return masked

    def placed(self) -> Tensor:
        """Long[B, G]: the response as it stands."""
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
        )
