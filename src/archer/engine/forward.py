"""One pass: compute the chosen columns, write their keys and values in place, attend to the whole store.

Axes: B rows, L columns, N token rows computed in this pass, d width, H / KV heads, D head size, V vocabulary.

Rows of the batch may compute different columns, prompts may differ in length: the N token rows are packed
one after the other, so no padding is computed, and attention runs over views of the store.  Neighbouring
rows that compute the same columns share one attention call.  Nothing is concatenated or rotated again.

This file does not decide what to compute (a policy does) and looks at no token's meaning (a decoder does).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from archer.engine.canvas import Canvas
from archer.engine.layer_rule import Local, RowRule
from archer.engine.layout import Layout, Run, columns_of
from archer.engine.logits import RowLogits
from archer.engine.memory import Memory, Store
from archer.engine.network import Angles, Layer, Transformer, rotate


@dataclass
class Work:
    """What was computed, counted where it is computed; the cost model without a profiler."""

    keys: int = 0
    """Token rows x layers whose keys were computed."""
    values: int = 0
    """Token rows x layers whose values were computed."""
    mixed: int = 0
    """Token rows x layers that went through attention and feed-forward."""
    pairs: int = 0
    """Query-key pairs x layers."""
    routed: int = 0
    """Token rows x layers whose feed-forward was a mixture of experts."""
    scored: int = 0
    """Token rows that reached the vocabulary head."""

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True)
class Fed:
    """What a pass is given of the canvas, on the network's device."""

    tokens: Tensor
    """Long[N]"""
    positions: Tensor
    """Long[N]"""
    columns: int
    """L"""
    visible: Tensor | None
    """Bool[B, L, L], query by key; None means dense."""

    @classmethod
    def of(cls, canvas: Canvas, layout: Layout, device: torch.device) -> Fed:
        tokens = [columns_of(canvas.tokens, item) for item in layout.computed]
        seen = canvas.visible
        return cls(
            tokens=torch.from_numpy(np.concatenate(tokens)).to(device),
            positions=_positions(canvas, layout, device),
            columns=canvas.columns,
            visible=None if seen is None else torch.from_numpy(seen).to(device),
        )


@dataclass(frozen=True)
class Pass:
    """The state of one pass: where columns go, what they see, and how much was computed."""

    layout: Layout
    fed: Fed
    store: Store
    angles: Angles
    work: Work
    last: int
    """Index of the last layer, which only has to return the rows that are scored."""
    dense_layers: int
    """Layers before those with experts."""

    def keep(self, packed: Tensor) -> Tensor:
        """[N, ...] -> the rows that are scored."""
        return packed if self.layout.kept is None else packed[self.layout.kept]

    def write(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Put keys (rotated) and values [N, KV, D] of every computed column into the store."""
        self.work.keys += keys.shape[0]
        self.work.values += values.shape[0]
        for run in self.layout.computed:
            for packed, kept in (
                (keys, self.store.keys[layer]),
                (values, self.store.values[layer]),
            ):
                heads = packed[run.packed].unflatten(0, (run.rows, run.each)).transpose(1, 2)
                kept[run.slots, :, run.columns] = heads

    def attend(self, layer: int, queries: Tensor, runs: Sequence[Run]) -> Tensor:
        """[N', H, D] rotated queries -> [N', H, D], Eq. (3): each sees its row's whole store."""
        if len(runs) == 1:
            return self._attend_run(layer, queries, runs[0])
        parts = [self._attend_run(layer, queries[run.packed], run) for run in runs]
        return torch.cat([queries[:0], *parts])

    def _attend_run(self, layer: int, queries: Tensor, run: Run) -> Tensor:
        """Query heads that share a key head are folded into its query axis: no key is repeated."""
        self.work.mixed += queries.shape[0]
        self.work.routed += queries.shape[0] if layer >= self.dense_layers else 0
        heads = self.store.keys.shape[2]
        group = queries.shape[1] // heads
        folded = queries.view(run.rows, run.each, heads, group, -1).permute(0, 2, 3, 1, 4)
        if run.sights:
            # Block-causal: each block of queries has its own last key column.
            parts = [
                self._see(layer, folded[..., sight.queries, :], run, sight.stop)
                for sight in run.sights
            ]
            answer = torch.cat(parts, dim=3)
        else:
            answer = self._see(layer, folded, run, self.fed.columns)
        return answer.permute(0, 3, 1, 2, 4).reshape(queries.shape)

    def _see(self, layer: int, folded: Tensor, run: Run, stop: int) -> Tensor:
        """[rows, KV, group, n, D] queries over the keys up to column `stop` -> the same."""
        rows, heads, group, each, size = folded.shape
        self.work.pairs += rows * each * (stop - run.start)
        answer = F.scaled_dot_product_attention(
            folded.reshape(rows, heads, group * each, size),
            self.store.keys[layer, run.slots, :, run.start : stop],
            self.store.values[layer, run.slots, :, run.start : stop],
            attn_mask=self._visible(run, group),
        )
        return answer.view(rows, heads, group, each, size)

    def _visible(self, run: Run, group: int) -> Tensor | None:
        if self.fed.visible is None:
            return None
        rows = slice(run.row, run.row + run.rows)
        seen = self.fed.visible[rows][:, run.columns, run.start :]
        return seen.repeat(1, group, 1)[:, None]


@dataclass(frozen=True)
class OneRow:
    """One sequence of a pass that computes all its columns: what a row rule works with."""

    whole: Pass
    memory: Memory
    row: int
    slot: int
    start: int
    packed: slice

    @property
    def prompt(self) -> int:
        return self.whole.layout.boundary - self.start

    def values(self, layer: int, rows: Local) -> Tensor:
        return self.whole.store.values[layer, self.slot, :, self._columns(rows)].transpose(0, 1)

    def write_keys(self, layer: int, rows: Local, keys: Tensor) -> None:
        self.whole.work.keys += keys.shape[0]
        turned = rotate(keys, self._angles(rows)).transpose(0, 1)
        self.whole.store.keys[layer, self.slot][:, self._columns(rows)] = turned

    def write_values(self, layer: int, rows: Local, values: Tensor) -> None:
        self.whole.work.values += values.shape[0]
        self.whole.store.values[layer, self.slot][:, self._columns(rows)] = values.transpose(0, 1)

    def attend(self, layer: int, rows: Local, queries: Tensor) -> Tensor:
        run = Run(
            row=self.row,
            rows=1,
            slots=slice(self.slot, self.slot + 1),
            start=self.start,
            columns=self._columns(rows),
            picked=slice(0),
            each=queries.shape[0],
            packed=slice(None),
        )
        return self.whole.attend(layer, rotate(queries, self._angles(rows)), [run])

    def feature(self, name: str, layer: int, like: Tensor) -> Tensor:
        kept = self.memory.features
        if name not in kept:
            size = (len(self.memory.slots), self.whole.last + 1, self.whole.fed.columns)
            kept[name] = like.new_zeros((*size, like.shape[-1]))
        return kept[name][self.row, layer, self.start :]

    def _columns(self, rows: Local) -> Local:
        columns = torch.arange(
            self.start, self.whole.fed.columns, device=self.whole.fed.tokens.device
        )
        return columns[rows]

    def _angles(self, rows: Local) -> Angles:
        return self.whole.angles.take(self.packed).take(rows)


def dense(index: int, layer: Layer, hidden: Tensor, at: Pass) -> Tensor:
    """The ordinary layer; the last one skips queries and feed-forward of rows nobody scores."""
    normed = layer.normed(hidden)
    runs = at.layout.computed
    if index == at.last and at.layout.kept is not None:
        keys, values = rotate(layer.keys(normed), at.angles), layer.values(normed)
        queries = rotate(layer.queries(at.keep(normed)), at.angles.take(at.layout.kept))
        hidden, runs = at.keep(hidden), at.layout.scored
    else:
        queries, keys, values = layer.project(normed, at.angles)
    at.write(index, keys, values)
    hidden = hidden + layer.mix(at.attend(index, queries, runs))
    return hidden + layer.feed_forward(hidden)


def ruled(
    index: int, layer: Layer, hidden: Tensor, at: Pass, memory: Memory, rule: RowRule
) -> Tensor:
    """A layer under a row rule: every sequence by itself; the last layer returns the scored rows."""
    after = torch.empty_like(hidden)
    for item in at.layout.computed:
        for offset in range(item.rows):
            first = item.packed.start + offset * item.each
            place = slice(first, first + item.each)
            slot = item.slots.start + offset
            sequence = OneRow(at, memory, item.row + offset, slot, item.start, place)
            after[place] = rule(index, layer, hidden[place], sequence)
    return at.keep(after) if index == at.last else after


def compute(
    network: Transformer, fed: Fed, layout: Layout, memory: Memory, rule: RowRule | None
) -> tuple[dict[int, RowLogits], Work]:
    """The part of a pass that happens on the device alone, so that it can be compiled."""
    hidden = network.embed(fed.tokens)
    at = Pass(
        layout=layout,
        fed=fed,
        store=memory.store,
        angles=network.angles(fed.positions),
        work=Work(),
        last=network.shape.layers - 1,
        dense_layers=network.shape.dense_layers,
    )
    for index in range(network.shape.layers):
        layer = network.layer(index)
        if rule is None:
            hidden = dense(index, layer, hidden, at)
        else:
            hidden = ruled(index, layer, hidden, at, memory, rule)
    scores = network.score(hidden)
    at.work.scored += scores.shape[0]
    rows: dict[int, RowLogits] = {}
    taken = 0
    for row, columns in layout.answers:
        rows[row] = RowLogits(scores[taken : taken + len(columns)], columns)
        taken += len(columns)
    return rows, at.work


def run(
    network: Transformer,
    canvas: Canvas,
    layout: Layout,
    memory: Memory,
    rule: RowRule | None = None,
    computing: Callable[..., tuple[dict[int, RowLogits], Work]] = compute,
) -> tuple[dict[int, RowLogits], Work]:
    """Compute the columns of `layout`; returns each computed row's logits and what it took.

    `computing` is `compute`, or a compiled form of it.
    """
    if not layout.computed:
        nothing = network.head.new_empty((0, network.shape.vocabulary))
        return {row: RowLogits(nothing, columns) for row, columns in layout.answers}, Work()
    return computing(network, Fed.of(canvas, layout, network.device), layout, memory, rule)


def _positions(canvas: Canvas, layout: Layout, device: torch.device) -> Tensor:
    if canvas.positions is None:
        return layout.positions
    repeated = [columns_of(canvas.positions, item) for item in layout.computed]
    return torch.from_numpy(np.concatenate(repeated)).to(device)
