"""First weights of an embedded model, and the batched pass that training needs.

Axes: B rows, L columns, H heads, D head size, d width, V vocabulary.

The pass uses the weights of `archer.engine.network.Transformer` and is equal to a full pass of
`archer.engine.forward`; it exists because that one is not differentiated and keeps a store.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from archer.engine.network import Angles, Layer, Shape, Transformer


def first_weights(shape: Shape, pieces: Sequence[str], seed: int) -> Transformer:
    """A trainable network. Head and embedding are one tensor: what is copied need not be learned twice.

    A piece and the same piece behind a space start out alike, for the same reason.
    """
    source = torch.Generator().manual_seed(seed)
    network = Transformer(shape, dtype=torch.float32)
    network.head = network.embedding
    for name, weight in network.named_parameters():
        if weight.dim() == 1:
            weight.data.fill_(0.0 if name.endswith("bias") else 1.0)
            continue
        deviation = 1.0 / math.sqrt(weight.shape[1])
        if name.endswith((".out", ".down")):
            deviation /= math.sqrt(2 * shape.layers)
        weight.data.normal_(0.0, deviation, generator=source)
    _pair_spaces(network.embedding.data, pieces)
    network.requires_grad_(True)
    return network


def _pair_spaces(embedding: Tensor, pieces: Sequence[str]) -> None:
    ids = {piece: index for index, piece in enumerate(pieces)}
    for piece, index in ids.items():
        bare = ids.get(piece[1:]) if piece.startswith(" ") else None
        if bare is not None:
            embedding[index] = 0.8 * embedding[bare] + 0.6 * embedding[index]


def hidden_states(network: Transformer, tokens: Tensor, visible: Tensor | None = None) -> Tensor:
    """Long[B, L] -> [B, L, d], before the final norm; `visible` Bool[B, L, L], query by key, None: dense."""
    rows, columns = tokens.shape
    angles = network.angles(torch.arange(columns).repeat(rows))
    hidden = network.embed(tokens)
    for index in range(network.shape.layers):
        layer = network.layer(index)
        hidden = hidden + _attention(layer, hidden, angles, visible)
        hidden = hidden + layer.feed_forward(hidden.view(rows * columns, -1)).view_as(hidden)
    return hidden


def _attention(layer: Layer, hidden: Tensor, angles: Angles, visible: Tensor | None) -> Tensor:
    """[B, L, d] -> [B, L, d]"""
    rows, columns, width = hidden.shape
    shape = layer.shape
    parts = layer.project(layer.normed(hidden.reshape(rows * columns, width)), angles)

    def batched(heads: Tensor) -> Tensor:
        return heads.view(rows, columns, shape.kv_heads, shape.head_dim).transpose(1, 2)

    queries, keys, values = map(batched, parts)
    seen = None if visible is None else visible[:, None]
    attended = F.scaled_dot_product_attention(queries, keys, values, attn_mask=seen)
    return layer.mix(attended.transpose(1, 2).reshape(rows * columns, shape.heads, -1)).view_as(
        hidden
    )
