"""First weights of an embedded model, and the pass that training differentiates.

Axes: B rows, L columns, d width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from archer.network import differentiable
from archer.network.differentiable import fused_attention
from archer.network.network import Shape, Transformer


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
    attention = partial(fused_attention, visible=visible)
    return differentiable.hidden_states(network, network.embed(tokens), attention=attention)
