"""All that survives from pass to pass: the K/V store and what a policy may remember of each row.

Axes: S slots (rows at the start of a generation), B rows still running, L columns, KV heads, D head size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from archer.canvas import Canvas
from archer.logits import RowLogits


@dataclass(frozen=True)
class Store:
    """Keys (after rotation) and values of every column, preallocated and written in place."""

    keys: Tensor
    """[layers, S, KV, L, D]"""
    values: Tensor
    """[layers, S, KV, L, D]"""

    @classmethod
    def empty(
        cls,
        layers: int,
        slots: int,
        kv_heads: int,
        columns: int,
        head_dim: int,
        *,
        device: torch.device,
        dtype: torch.dtype,
    ) -> Store:
        size = (layers, slots, kv_heads, columns, head_dim)
        return cls(
            keys=torch.empty(size, device=device, dtype=dtype),
            values=torch.empty(size, device=device, dtype=dtype),
        )

    def clone(self) -> Store:
        return Store(self.keys.clone(), self.values.clone())


@dataclass
class Memory:
    """The live memory of a generation.  `clone` what you keep: the loop goes on writing into it."""

    store: Store
    slots: tuple[int, ...]
    """Where in the store each running row lives; finished rows leave their slot unused."""
    seen: Tensor
    """Long[B, L]: tokens at the last pass."""
    anchor: Tensor
    """Long[B, L]: tokens at the last pass that computed every column."""
    anchored: Tensor
    """Bool[B]: False before the first such pass and after `forget`."""
    age: Tensor
    """Long[B]: passes since the anchor."""
    passes: tuple[int, ...]
    """Passes so far, per row; known to the host, so that a layer rule can branch on it."""
    block: Tensor
    """Long[B, 2]: the block at the last pass."""
    block_passes: Tensor
    """Long[B]: passes made in that block."""
    logits: tuple[RowLogits | None, ...]
    """What each row's last pass returned, for a row that asks the same question again."""
    features: dict[str, Tensor] = field(default_factory=dict)
    """Named per-layer features of rules that keep some; empty otherwise."""

    @classmethod
    def blank(cls, store: Store, canvas: Canvas) -> Memory:
        """Nothing seen yet: the first pass computes everything."""
        nothing = torch.full_like(canvas.tokens, -1)
        zeros = torch.zeros_like(canvas.tokens[:, 0])
        return cls(
            store=store,
            slots=tuple(range(canvas.rows)),
            seen=nothing,
            anchor=nothing,
            anchored=zeros.bool(),
            age=zeros,
            passes=(0,) * canvas.rows,
            block=torch.full_like(canvas.block, -1),
            block_passes=zeros,
            logits=(None,) * canvas.rows,
        )

    def distance(self, canvas: Canvas) -> Tensor:
        """Long[B]: response tokens that differ from the anchor, Eq. (4); 0 where there is no anchor."""
        moved = (canvas.placed() != self.anchor[:, canvas.response]).sum(dim=1)
        return moved * self.anchored

    def same_question(self, canvas: Canvas) -> Tensor:
        """Bool[B]: nothing the model would see has changed since the row's last pass."""
        return (canvas.tokens == self.seen).all(dim=1) & self.anchored

    def in_new_block(self, canvas: Canvas) -> Tensor:
        """Bool[B]: the row has moved to another block since its last pass."""
        return (canvas.block != self.block).any(dim=1)

    def note(self, canvas: Canvas, ran: Sequence[bool], full: Sequence[bool]) -> None:
        """Record a pass over the rows that `ran`, of which the `full` ones computed every column."""
        self.passes = tuple(made + now for made, now in zip(self.passes, ran, strict=True))
        in_block = (self.block_passes + 1).masked_fill(self.in_new_block(canvas), 1)
        self.block_passes = _where(ran, in_block, self.block_passes)
        self.block = _where(ran, canvas.block, self.block)
        self.seen = _where(ran, canvas.tokens, self.seen)
        self.anchor = _where(full, canvas.tokens, self.anchor)
        self.anchored = _where(full, torch.ones_like(self.anchored), self.anchored)
        older = _where(ran, self.age + 1, self.age)
        self.age = _where(full, torch.zeros_like(older), older)

    def copy_rows(self, twins: Mapping[int, int]) -> None:
        """Give rows the keys, values and features of others."""
        for row, like in twins.items():
            for kept in (self.store.keys, self.store.values):
                kept[:, self.slots[row]] = kept[:, self.slots[like]]
            for feature in self.features.values():
                feature[row] = feature[like]

    def forget(self) -> None:
        """Drop the anchor of every row: a policy that needs one makes its next pass a full one."""
        self.anchored = torch.zeros_like(self.anchored)
        self.logits = (None,) * len(self.slots)

    def select(self, rows: Sequence[int]) -> Memory:
        """The same store, fewer rows; no keys or values are moved."""
        chosen = list(rows)
        return replace(
            self,
            slots=tuple(self.slots[row] for row in rows),
            seen=self.seen[chosen],
            anchor=self.anchor[chosen],
            anchored=self.anchored[chosen],
            age=self.age[chosen],
            passes=tuple(self.passes[row] for row in rows),
            block=self.block[chosen],
            block_passes=self.block_passes[chosen],
            logits=tuple(self.logits[row] for row in rows),
            features={name: tensor[chosen] for name, tensor in self.features.items()},
        )

    def clone(self) -> Memory:
        """An independent copy: later passes of either side do not reach the other."""
        return replace(
            self,
            store=self.store.clone(),
            features={name: tensor.clone() for name, tensor in self.features.items()},
        )


def _where(rows: Sequence[bool], then: Tensor, otherwise: Tensor) -> Tensor:
    """[B, ...]: `then` in the rows that say so.  The host knows them, so mostly nothing is computed."""
    if all(rows):
        return then
    if not any(rows):
        return otherwise
    chosen = torch.tensor(rows, device=then.device)
    return torch.where(chosen[:, None] if then.dim() > 1 else chosen, then, otherwise)
