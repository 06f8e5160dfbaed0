"""One pass: compute the chosen columns, write their keys and values in place, attend to the whole store.

Axes: B rows, L columns, N token rows computed in this pass, d width, H / KV heads, D head size, V vocabulary.

Rows of the batch may compute different columns, prompts may differ in length: the N token rows are packed
one after the other, so no padding is computed, and attention runs over views of the store.  Neighbouring
rows that compute the same columns share one attention call.  Nothing is concatenated or rotated again.

This file does not decide what to compute (a policy does) and looks at no token's meaning (a decoder does).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from archer.canvas import Canvas
from archer.layout import Layout, Run, columns_of
from archer.logits import RowLogits
from archer.memory import Memory, Store
from archer.transformer import Angles, Layer, Transformer, rotate


@dataclass(frozen=True)
class Work:
    """What a pass computed, counted; the cost model without a profiler."""

    projected: int = 0
    """Token rows x layers whose keys and values were computed."""
    mixed: int = 0
    """Token rows x layers that went through attention and feed-forward."""
    pairs: int = 0
    """Query-key pairs x layers."""
    scored: int = 0
    """Token rows that reached the vocabulary head."""

    def __add__(self, other: Work) -> Work:
        return Work(
            self.projected + other.projected,
            self.mixed + other.mixed,
            self.pairs + other.pairs,
            self.scored + other.scored,
        )


@dataclass(frozen=True)
class Pass:
    """What a layer rule may know of the pass it works in."""

    layout: Layout
    canvas: Canvas
    store: Store
    angles: Angles
    features: dict[str, Tensor]
    last: int
    """Index of the last layer, which only has to return the rows that are scored."""

    def keep(self, packed: Tensor) -> Tensor:
        """[N, ...] -> the rows that are scored."""
        return packed if self.layout.kept is None else packed[self.layout.kept]

    def write(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Put keys (rotated) and values [N, KV, D] of every computed column into the store."""
        for run in self.layout.computed:
            for packed, kept in (
                (keys, self.store.keys[layer]),
                (values, self.store.values[layer]),
            ):
                heads = packed[run.packed].unflatten(0, (run.rows, run.each)).transpose(1, 2)
                kept[run.slots][:, :, run.columns] = heads

    def attend(self, layer: int, queries: Tensor, runs: Sequence[Run]) -> Tensor:
        """[N', H, D] rotated queries -> [N', H, D], Eq. (3): each sees its row's whole store."""
        if len(runs) == 1:
            return self._attend_run(layer, queries, runs[0])
        parts = [self._attend_run(layer, queries[run.packed], run) for run in runs]
        return torch.cat([queries[:0], *parts])

    def _attend_run(self, layer: int, queries: Tensor, run: Run) -> Tensor:
        """Query heads that share a key head are folded into its query axis: no key is repeated."""
        stop = self.canvas.columns
        keys = self.store.keys[layer, run.slots, :, run.start : stop]
        values = self.store.values[layer, run.slots, :, run.start : stop]
        heads, group = keys.shape[1], queries.shape[1] // keys.shape[1]
        folded = queries.view(run.rows, run.each, heads, group, -1).permute(0, 2, 3, 1, 4)
        answer = F.scaled_dot_product_attention(
            folded.reshape(run.rows, heads, group * run.each, -1),
            keys,
            values,
            attn_mask=self._visible(run, group),
        )
        answer = answer.view(run.rows, heads, group, run.each, -1).permute(0, 3, 1, 2, 4)
        return answer.reshape(queries.shape)

    def _visible(self, run: Run, group: int) -> Tensor | None:
        if self.canvas.visible is None:
            return None
        rows = slice(run.row, run.row + run.rows)
        seen = self.canvas.visible[rows][:, run.columns, run.start :]
        return seen.repeat(1, group, 1)[:, None]


LayerRule = Callable[[int, Layer, Tensor, Pass], Tensor]
"""How one layer turns hidden states [N, d] into hidden states; the last layer returns `at.keep` rows."""


def dense(index: int, layer: Layer, hidden: Tensor, at: Pass) -> Tensor:
    """The ordinary layer; the last one skips queries and feed-forward of rows nobody scores."""
    normed = layer.normed(hidden)
    runs = at.layout.computed
    if index == at.last and at.layout.kept is not None:
        keys, values = layer.keys(normed), layer.values(normed)
        queries = rotate(layer.queries(at.keep(normed)), at.angles.take(at.layout.kept))
        hidden, runs = at.keep(hidden), at.layout.scored
    else:
        queries, keys, values = layer.project(normed)
        queries = rotate(queries, at.angles)
    at.write(index, rotate(keys, at.angles), values)
    hidden = hidden + layer.mix(at.attend(index, queries, runs))
    return hidden + layer.feed_forward(hidden)


def run(
    network: Transformer,
    canvas: Canvas,
    layout: Layout,
    memory: Memory,
    rule: LayerRule = dense,
) -> tuple[dict[int, RowLogits], Work]:
    """Compute the columns of `layout`; returns each computed row's logits and what it took."""
    tokens = torch.cat([columns_of(canvas.tokens, item) for item in layout.computed])
    positions = torch.cat([_positions(canvas, item) for item in layout.computed])
    at = Pass(
        layout=layout,
        canvas=canvas,
        store=memory.store,
        angles=network.angles(positions),
        features=memory.features,
        last=network.shape.layers - 1,
    )
    hidden = network.embed(tokens)
    for index in range(network.shape.layers):
        hidden = rule(index, network.layer(index), hidden, at)
    scores = network.score(hidden)
    rows: dict[int, RowLogits] = {}
    taken = 0
    for row, columns in layout.answers:
        rows[row] = RowLogits.of(scores[taken : taken + len(columns)], columns)
        taken += len(columns)
    return rows, _work(layout, canvas, network.shape.layers)


def _positions(canvas: Canvas, item: Run) -> Tensor:
    if canvas.positions is not None:
        return columns_of(canvas.positions, item)
    columns = torch.arange(canvas.columns, device=canvas.tokens.device)[item.columns]
    return (columns - item.start).repeat(item.rows)


def _work(layout: Layout, canvas: Canvas, layers: int) -> Work:
    fed = sum(item.rows * item.each for item in layout.computed)
    scored = sum(item.rows * item.each for item in layout.scored)
    full_pairs = sum(i.rows * i.each * (canvas.columns - i.start) for i in layout.computed)
    last_pairs = sum(i.rows * i.each * (canvas.columns - i.start) for i in layout.scored)
    return Work(
        projected=fed * layers,
        mixed=fed * (layers - 1) + scored,
        pairs=full_pairs * (layers - 1) + last_pairs,
        scored=scored,
    )
