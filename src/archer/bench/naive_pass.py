"""The cached pass as it is usually written: concatenate keys, rotate all of them again, score all rows.

Axes: n token rows computed, T rows kept, d width, H / KV heads, D head size, V vocabulary.

The other side of the comparison in `archer bench step`.  It shares weights and kernels with the engine, so
what it costs more is the price of the concatenation, the rotation and the repeated heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from archer.network.attention import seen
from archer.network.network import Layer, Transformer, rotate
from archer.passes.work import Work


class Past(NamedTuple):
    """What one layer keeps of a pass: keys before rotation, and values."""

    keys: Tensor  # [T, KV, D]
    values: Tensor  # [T, KV, D]

    def first(self, rows: int) -> Past:
        return Past(self.keys[:rows], self.values[:rows])


def naive_pass(
    network: Transformer,
    tokens: Tensor,
    past: Sequence[Past] = (),
    prompt: int = 0,
) -> tuple[Tensor, Work]:
    """Long[n] -> logits [n, V] of the columns that follow `past`; without it, of a whole sequence.

    `prompt` columns come before the response: some backbones attend accordingly.
    """
    work = Work()
    hidden, _ = naive_layers(network, tokens, past, work, prompt)
    scores = network.score(hidden)
    work.scored += len(scores)
    return scores, work


def naive_layers(
    network: Transformer,
    tokens: Tensor,
    past: Sequence[Past] = (),
    work: Work | None = None,
    prompt: int = 0,
) -> tuple[Tensor, list[Past]]:
    """The same up to the last layer: [n, d], and what each layer would keep."""
    hidden, work = network.embed(tokens), Work() if work is None else work
    made = []
    for index in range(network.shape.layers):
        before = past[index] if past else None
        layer = network.layer(index)
        hidden, state = _layer(network, layer, hidden, before, work, prompt)
        work.routed += len(hidden) if index >= network.shape.dense_layers else 0
        made.append(state)
    return hidden, made


def _layer(
    network: Transformer,
    layer: Layer,
    hidden: Tensor,
    past: Past | None,
    work: Work,
    prompt: int,
) -> tuple[Tensor, Past]:
    normed = layer.normed(hidden)
    queries, keys, values = layer.queries(normed), layer.keys(normed), layer.values(normed)
    all_keys = keys if past is None else torch.cat((past.keys, keys))
    all_values = values if past is None else torch.cat((past.values, values))
    columns = torch.arange(len(all_keys), device=hidden.device)
    angles = network.angles(columns)
    own = angles.take(slice(len(all_keys) - len(keys), None))
    group = queries.shape[1] // keys.shape[1]
    attended = F.scaled_dot_product_attention(
        rotate(queries, own).transpose(0, 1)[None],
        rotate(all_keys, angles).repeat_interleave(group, dim=1).transpose(0, 1)[None],
        all_values.repeat_interleave(group, dim=1).transpose(0, 1)[None],
        attn_mask=seen(network.shape.attention, columns[-len(keys) :], columns, prompt),
    )
    hidden = hidden + layer.mix(attended[0].transpose(0, 1))
    _count(work, len(keys), len(all_keys))
    return hidden + layer.feed_forward(hidden), Past(keys, values)


def _count(work: Work, rows: int, columns: int) -> None:
    work.keys += rows
    work.values += rows
    work.mixed += rows
    work.pairs += rows * columns
