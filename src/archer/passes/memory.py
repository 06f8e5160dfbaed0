"""All that survives from pass to pass: the K/V store and what a policy may remember of each row.

Axes: S slots (rows at the start of a generation), B rows still running, L columns, KV heads, D head size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from archer.errors import PassFailed, quoted
from archer.network.shape import Blocks
from archer.passes.canvas import Canvas, Flags, Ints
from archer.passes.logits import RowLogits

Notes = Mapping[str, NDArray[Any]]
"""What a policy remembers, by names of its own: arrays [B, ...], one line for each row."""


class Mirror(Protocol):
    """Keeps the stores of other shards as this one."""

    def copied(self, target: Store, source: Store, slots: tuple[int, int] | None) -> None: ...


@dataclass(frozen=True)
class Store:
    """Keys (after rotation) and values of every column, preallocated and written in place."""

    keys: Tensor
    """[layers, S, KV, L, D]"""
    values: Tensor
    """[layers, S, KV, L, D]"""
    mirror: Mirror | None = None
    """Told of copies, where other shards hold the other heads; passes they make themselves."""
    features: dict[str, Tensor] = field(default_factory=dict)
    """[S, layers, L, d] by name: outputs of layers, where a rule inside layers keeps some."""

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

    @property
    def columns(self) -> int:
        return int(self.keys.shape[3])

    def narrowed(self) -> Store:
        """One without a column, which takes no memory."""
        return Store(self.keys[:, :, :, :0].clone(), self.values[:, :, :, :0].clone())

    def clone(self) -> Store:
        features = {name: feature.clone() for name, feature in self.features.items()}
        store = Store(self.keys.clone(), self.values.clone(), self.mirror, features)
        if self.mirror is not None:
            self.mirror.copied(store, self, None)
        return store

    def take(self, other: Store, slots: tuple[int, int] | None = None) -> None:
        """Copy all that is kept: of all slots, or into the first of `slots` what is in the second.

        Of stores of different widths, the columns that both have.
        """
        width = min(self.columns, other.columns)
        for own, theirs in ((self.keys, other.keys), (self.values, other.values)):
            if slots is None:
                own[..., :width, :] = theirs[..., :width, :]
            else:
                own[:, slots[0]] = theirs[:, slots[1]]
        for name, feature in other.features.items():
            if slots is None:
                self.features[name] = feature.clone()
            else:
                self.features[name][slots[0]] = feature[slots[1]]
        if self.mirror is not None:
            self.mirror.copied(self, other, slots)


@dataclass
class Memory:
    """The live memory of a generation.  `clone` what you keep: the loop goes on writing into it."""

    store: Store
    slots: tuple[int, ...]
    """Where in the store each running row lives; finished rows leave their slot unused."""
    seen: Ints
    """[B, L]: tokens at the last pass; -1 where the row had no column."""
    anchor: Ints
    """[B, L]: tokens at the last pass that computed every column; -1 where the row had none."""
    anchored: Flags
    """[B]: False before the first such pass and after `forget`."""
    reached: Ints
    """[B]: one past the last column that the last pass could see; what lies behind was never computed."""
    logits: tuple[RowLogits | None, ...]
    """What each row's last pass returned, for a row that asks the same question again."""
    notes: Notes = field(default_factory=dict)
    """What the policy remembers."""
    author: object = None
    """The policy whose notes these are: another one begins with notes of its own."""

    @classmethod
    def blank(cls, store: Store, canvas: Canvas) -> Memory:
        """Nothing seen yet: the first pass computes everything."""
        nothing = np.full_like(canvas.tokens, -1)
        zeros = np.zeros(canvas.rows, dtype=np.int64)
        return cls(
            store=store,
            slots=tuple(range(canvas.rows)),
            seen=nothing,
            anchor=nothing,
            anchored=zeros.astype(np.bool_),
            reached=zeros,
            logits=(None,) * canvas.rows,
        )

    def distance(self, canvas: Canvas) -> Ints:
        """[B]: response tokens that differ from the anchor, Eq. (4); 0 without one, or if it is exact.

        Columns that the row has got since count, those that it has lost do not.
        """
        if canvas.exact:
            return np.zeros(canvas.rows, dtype=np.int64)
        moved = canvas.placed() != self.anchor[:, canvas.open]
        if canvas.stops is not None:
            moved &= canvas.everything()[:, canvas.open]
        distance: Ints = moved.sum(axis=1) * self.anchored
        return distance

    def made_of(self, canvas: Canvas) -> Ints:
        """[B, L]: the tokens from which a full pass makes again what a prompt cache keeps."""
        return self.seen if canvas.exact else self.anchor

    def outdated(self, canvas: Canvas) -> Flags:
        """[B, L]: what a pass must compute however fresh the prompt's cache is: all that can be revised.

        Under block-causal attention less: from the block of the first column that has changed since the last
        pass, was never computed or is read.  Earlier blocks are exact, because they see nothing behind them.
        """
        if not isinstance(canvas.attention, Blocks):
            return canvas.revisable()
        columns = np.arange(canvas.columns)
        unseen = (canvas.tokens != self.seen) | (columns >= self.reached[:, None])
        changed = (unseen | canvas.reads).argmax(axis=1)
        first = canvas.attention.start(changed, canvas.response.start)
        outdated: Flags = (columns >= first[:, None]) & canvas.everything()
        return outdated

    def same_question(self, canvas: Canvas) -> Flags:
        """[B]: nothing the model would see has changed since the row's last pass."""
        same: Flags = (canvas.existing(canvas.tokens) == self.seen).all(axis=1) & self.anchored
        return same

    def note(
        self, canvas: Canvas, ran: Sequence[bool], full: Sequence[bool], notes: Notes | None = None
    ) -> None:
        """Record a pass over the rows that `ran`, some `full`; `notes` are the policy's."""
        for name, array in (notes or {}).items():
            if name not in self.notes:
                raise PassFailed(
                    f"The cache noted {quoted(name)} after a pass, and its `start` names "
                    f"{quoted(list(self.notes))}. Name every note there."
                )
            self.notes = {**self.notes, name: _where(ran, array, self.notes[name])}
        tokens = canvas.existing(canvas.tokens)
        self.seen = _where(ran, tokens, self.seen)
        self.reached = _where(ran, canvas.horizon(), self.reached)
        if any(full):
            self.anchor = _where(full, tokens, self.anchor)
            self.anchored = _where(full, np.ones_like(self.anchored), self.anchored)

    def copy_rows(self, twins: Mapping[int, int]) -> None:
        """Give rows what the store holds of others."""
        for row, like in twins.items():
            self.store.take(self.store, (self.slots[row], self.slots[like]))

    def without_store(self) -> Memory:
        """The same without keys and values, which can be made again from the anchor."""
        return replace(self, store=self.store.narrowed())

    def with_store(self, store: Store) -> Memory:
        """The same with a new store, a slot for each row."""
        return replace(self, store=store, slots=tuple(range(len(self.slots))))

    def forget(self) -> None:
        """Drop the anchor of every row: a policy that needs one makes its next pass a full one."""
        self.anchored = np.zeros_like(self.anchored)
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
            reached=self.reached[chosen],
            logits=tuple(self.logits[row] for row in rows),
            notes={name: array[chosen] for name, array in self.notes.items()},
        )

    def clone(self) -> Memory:
        """An independent copy: later passes of either side do not reach the other."""
        return replace(self, store=self.store.clone())


def _where(rows: Sequence[bool], then: NDArray[Any], otherwise: NDArray[Any]) -> NDArray[Any]:
    """[B, ...]: `then` in the rows that say so; mostly they all do or none does."""
    if all(rows):
        return then
    if not any(rows):
        return otherwise
    chosen = np.array(rows).reshape(-1, *(1,) * (then.ndim - 1))
    return np.where(chosen, then, otherwise)
