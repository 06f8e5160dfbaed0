"""Slow, obvious versions of what the library does fast: the other side of every equality test."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from archer.engine.network import Layer, Transformer

LayerState = list[tuple[Tensor, Tensor]]
"""Keys before rotation and values [T, KV, D] of each layer."""


def forward(
    network: Transformer,
    tokens: Tensor,
    first: int = 0,
    past: LayerState | None = None,
    offset: int = 0,
) -> tuple[Tensor, LayerState]:
    """Raw logits [T, V] of the columns `tokens` at positions first.., after the columns of `past`.

    Concatenates and rotates all keys again in every layer, repeats grouped key heads, uses no store.
    """
    hidden = network.embedding[tokens]
    states: LayerState = []
    for index in range(network.shape.layers):
        before = None if past is None else past[index]
        hidden, keys, values = _layer(
            network, network.layer(index), hidden, first + offset, before, offset
        )
        states.append((keys, values))
    normed = _norm(hidden, network.norm, network.shape.norm_epsilon)
    return normed @ network.head.T, states


def aligned(raw: Tensor, prompt: int, shift: bool) -> Tensor:
    """Rows that predict the response, from the raw rows of a whole sequence."""
    return raw[prompt - 1 : -1] if shift else raw[prompt:]


def full(network: Transformer, prompt: Tensor, response: Tensor, shift: bool) -> Tensor:
    """Aligned response logits [G, V] of one full pass."""
    raw, _ = forward(network, torch.cat((prompt, response)))
    return aligned(raw, len(prompt), shift)


def cached(
    network: Transformer, prompt: Tensor, anchor: Tensor, response: Tensor, shift: bool
) -> Tensor:
    """Aligned response logits [G, V] when the prompt's keys and values come from another response."""
    kept = len(prompt) - int(shift)
    _, states = forward(network, torch.cat((prompt, anchor)))
    past = [(keys[:kept], values[:kept]) for keys, values in states]
    raw, _ = forward(network, torch.cat((prompt[kept:], response)), kept, past)
    return raw[:-1] if shift else raw


def confidence(logits: Tensor, mask: int) -> tuple[Tensor, Tensor]:
    """Best token other than the mask id and its softmax probability, in float64."""
    wide = logits.double()
    allowed = wide.clone()
    allowed[..., mask] = -math.inf
    tokens = allowed.argmax(dim=-1)
    return tokens, wide.softmax(dim=-1).gather(-1, tokens[..., None]).squeeze(-1)


def _layer(
    network: Transformer,
    layer: Layer,
    hidden: Tensor,
    first: int,
    past: tuple[Tensor, Tensor] | None,
    offset: int,
) -> tuple[Tensor, Tensor, Tensor]:
    shape = network.shape
    normed = _norm(hidden, layer.attention_norm, shape.norm_epsilon)
    fused = normed @ layer.qkv.T + (0 if layer.qkv_bias is None else layer.qkv_bias)
    heads = fused.view(len(hidden), -1, shape.head_dim)
    queries, keys, values = heads.split([shape.heads, shape.kv_heads, shape.kv_heads], dim=1)
    all_keys = keys if past is None else torch.cat((past[0], keys))
    all_values = values if past is None else torch.cat((past[1], values))
    turned_keys = _rotate(all_keys, offset, shape.rope_theta)
    turned = _rotate(queries, first, shape.rope_theta)
    group = shape.heads // shape.kv_heads
    scores = torch.einsum("qhd,khd->hqk", turned, turned_keys.repeat_interleave(group, dim=1))
    weights = (scores / math.sqrt(shape.head_dim)).softmax(dim=-1)
    mixed = torch.einsum("hqk,khd->qhd", weights, all_values.repeat_interleave(group, dim=1))
    hidden = hidden + mixed.reshape(len(hidden), -1) @ layer.out.T
    gate, up = (_norm(hidden, layer.feed_norm, shape.norm_epsilon) @ layer.gate_up.T).chunk(2, -1)
    return hidden + (F.silu(gate) * up) @ layer.down.T, keys, values


def _norm(hidden: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return hidden / (hidden.pow(2).mean(-1, keepdim=True) + epsilon).sqrt() * weight


def _rotate(heads: Tensor, first: int, theta: float) -> Tensor:
    size = heads.shape[-1]
    position = torch.arange(first, first + len(heads), dtype=heads.dtype)
    frequency = theta ** (-torch.arange(0, size, 2, dtype=heads.dtype) / size)
    angle = torch.cat([position[:, None] * frequency] * 2, dim=-1)[:, None]
    half = torch.cat((-heads[..., size // 2 :], heads[..., : size // 2]), dim=-1)
    return heads * angle.cos() + half * angle.sin()
