"""What a cache policy may use when it chooses rows inside each layer.

Axes: n token rows of one sequence, d width, H query heads, KV key heads, D head size.

Most policies choose columns and never look here.  One that keeps features of a layer gives the loop a
`RowRule`; a pass then hands it each layer in pieces, one sequence at a time.  The protocols are all that a
rule may know; `ruled` is the layer of a pass under one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from archer.network.attention import AttentionView, attend_group, seen
from archer.network.network import Angles, Shape, Transformer, rotate

if TYPE_CHECKING:
    from archer.passes.forward import Pass, Share

Local = slice | Tensor
"""Which rows of a sequence: a span with both its ends, or Long[n]; counted from its first column."""


class LayerPieces(Protocol):
    """One layer, offered in pieces; heads come before rotation."""

    def normed(self, hidden: Tensor) -> Tensor: ...
    def queries(self, normed: Tensor) -> Tensor: ...
    def keys(self, normed: Tensor) -> Tensor: ...
    def values(self, normed: Tensor) -> Tensor: ...
    def mix(self, attended: Tensor) -> Tensor: ...
    def feed_forward(self, hidden: Tensor) -> Tensor: ...
    def cosine(self, values: Tensor, others: Tensor) -> Tensor: ...


class RowInPass(Protocol):
    """One row of the batch inside a pass that computes all its columns."""

    @property
    def prompt(self) -> int:
        """How many of its columns are prompt; with shifted logits the last one counts as response."""
        ...

    @property
    def row(self) -> int:
        """Its place among the running rows."""
        ...

    def is_last(self, layer: int) -> bool:
        """Behind it only response rows are read."""
        ...

    def values(self, layer: int, rows: Local) -> Tensor:
        """[n, KV, D]: what the store holds."""
        ...

    def write_keys(self, layer: int, rows: Local, keys: Tensor) -> None:
        """Rotate keys [n, KV, D] to their positions and store them."""
        ...

    def write_values(self, layer: int, rows: Local, values: Tensor) -> None: ...

    def attend(self, layer: int, rows: Local, queries: Tensor) -> Tensor:
        """Rotate queries [n, H, D] to their positions; each sees the whole store."""
        ...

    def feature(self, name: str, layer: int, like: Tensor) -> Tensor:
        """[columns, d]: memory of this row and layer, zeros at first, to be written in place."""
        ...


class RowRule(Protocol):
    """How one layer turns the hidden states [columns, d] of one sequence into the next ones.

    One that other shards are to follow is a dataclass of plain data with a name in `methods.catalogue.RULES`.
    """

    def __call__(self, index: int, layer: LayerPieces, hidden: Tensor, at: RowInPass) -> Tensor: ...


@dataclass(frozen=True)
class Ruled:
    """A rule for the next pass, and which rows it refreshes entirely."""

    rule: RowRule
    full: tuple[bool, ...]


@dataclass(frozen=True)
class OneRow:
    """One sequence of a pass that computes all its columns: what a row rule works with."""

    share: Share
    angles: Angles
    shape: Shape
    row: int
    slot: int

    @property
    def prompt(self) -> int:
        first: int = self.share.question.canvas.response.start
        return first - int(self.shape.shift)

    def is_last(self, layer: int) -> bool:
        return layer == self.shape.layers - 1

    def values(self, layer: int, rows: Local) -> Tensor:
        return self._kept(layer)[1][:, rows].transpose(0, 1)

    def write_keys(self, layer: int, rows: Local, keys: Tensor) -> None:
        self.share.work.keys += keys.shape[0]
        turned = rotate(keys, self.angles.take(rows)).transpose(0, 1)
        self._kept(layer)[0][:, rows] = turned

    def write_values(self, layer: int, rows: Local, values: Tensor) -> None:
        self.share.work.values += values.shape[0]
        self._kept(layer)[1][:, rows] = values.transpose(0, 1)

    def attend(self, layer: int, rows: Local, queries: Tensor) -> Tensor:
        keys, values = (each[None] for each in self._kept(layer))
        self.share.work.mixed += queries.shape[0]
        self.share.work.routed += queries.shape[0] if layer >= self.shape.dense_layers else 0
        self.share.work.pairs += queries.shape[0] * keys.shape[2]
        return attend_group(
            rotate(queries, self.angles.take(rows)),
            AttentionView(keys, values, len(queries), self._visible(rows, keys.device)),
        )

    def _visible(self, rows: Local, device: torch.device) -> Tensor | None:
        """Bool[1, n, S]: what the rows see, by the backbone's rule and the decoder's; None for everything."""
        canvas, own = self.share.question.canvas, self.share.visible
        every = torch.arange(canvas.columns, device=device)
        rule = seen(canvas.attention, every[rows], every, canvas.response.start)
        if own is not None:
            extra = own[self.row, rows]
            rule = extra if rule is None else rule & extra
        return None if rule is None else rule[None]

    def feature(self, name: str, layer: int, like: Tensor) -> Tensor:
        store, columns = self.share.question.memory.store, self.share.question.canvas.columns
        if name not in store.features:
            size = (store.keys.shape[1], self.shape.layers, columns, like.shape[-1])
            store.features[name] = like.new_zeros(size)
        return store.features[name][self.slot, layer]

    def _kept(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values [KV, L, D] of this row."""
        store, stop = self.share.question.memory.store, self.share.question.canvas.columns
        return store.keys[layer, self.slot, :, :stop], store.values[layer, self.slot, :, :stop]


def ruled(index: int, network: Transformer, hidden: Tensor, at: Pass, rule: RowRule) -> Tensor:
    """A layer under a row rule; the last layer returns the scored rows."""
    layer = network.layer(index)
    after = []
    for share in at.shares:
        for group, packed in share.groups(scored=False):
            for offset in range(group.rows):
                first = packed.start + offset * group.each
                place = slice(first, first + group.each)
                sequence = OneRow(
                    share=share,
                    angles=at.angles.take(place),
                    shape=network.shape,
                    row=group.row + offset,
                    slot=group.slots.start + offset,
                )
                after.append(rule(index, layer, hidden[place], sequence))
    following = after[0] if len(after) == 1 else torch.cat(after)
    return at.keep(following) if index == at.last else following
