"""Slow, obvious versions of what the library does fast: the other side of every equality test."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from archer.network.network import Layer, Transformer
from archer.network.shape import Router
from archer.passes.logits import Candidates, Logits

LayerState = list[tuple[Tensor, Tensor]]
"""Keys before rotation and values [T, KV, D] of each layer."""


def forward(
    network: Transformer,
    tokens: Tensor,
    first: int = 0,
    past: LayerState | None = None,
    offset: int = 0,
    attention_block: int | None = None,
    held: tuple[Tensor, LayerState] | None = None,
) -> tuple[Tensor, LayerState]:
    """Raw logits [T, V] of the columns `tokens` at positions first.., after the columns of `past`.

    At the columns `held` [T] keys and values are those of another pass, whatever these tokens give.
    Concatenates and rotates all keys again in every layer, repeats grouped key heads, uses no store; every
    expert computes every row, and a block-causal rule is a mask of minus infinities.
    """
    hidden = network.embedding[tokens]
    states: LayerState = []
    for index in range(network.shape.layers):
        before = None if past is None else past[index]
        hidden, keys, values = _layer(
            network,
            network.layer(index),
            hidden,
            first + offset,
            before,
            offset,
            attention_block,
            None if held is None else (held[0], *held[1][index]),
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
    attention_block: int | None,
    held: tuple[Tensor, Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    shape = network.shape
    normed = _norm(hidden, layer.attention_norm, shape.norm_epsilon)
    fused = normed @ layer.qkv.T + (0 if layer.qkv_bias is None else layer.qkv_bias)
    heads = fused.view(len(hidden), -1, shape.head_dim)
    queries, keys, values = heads.split([shape.heads, shape.kv_heads, shape.kv_heads], dim=1)
    if layer.query_norm is not None and layer.key_norm is not None:
        queries = _norm(queries, layer.query_norm, shape.norm_epsilon)
        keys = _norm(keys, layer.key_norm, shape.norm_epsilon)
    if held is not None:
        keys = torch.where(held[0][:, None, None], held[1], keys)
        values = torch.where(held[0][:, None, None], held[2], values)
    all_keys = keys if past is None else torch.cat((past[0], keys))
    all_values = values if past is None else torch.cat((past[1], values))
    turned_keys = _rotate(all_keys, offset, shape.rope_theta, shape.rotary)
    turned = _rotate(queries, first, shape.rope_theta, shape.rotary)
    group = shape.heads // shape.kv_heads
    scores = torch.einsum("qhd,khd->hqk", turned, turned_keys.repeat_interleave(group, dim=1))
    if attention_block is not None:
        own = torch.arange(first, first + len(queries)) // attention_block
        seen = torch.arange(offset, offset + len(all_keys)) // attention_block
        scores = scores.masked_fill(own[:, None] < seen, -math.inf)
    weights = (scores / math.sqrt(shape.head_dim)).softmax(dim=-1)
    mixed = torch.einsum("hqk,khd->qhd", weights, all_values.repeat_interleave(group, dim=1))
    hidden = hidden + mixed.reshape(len(hidden), -1) @ layer.out.T
    normed = _norm(hidden, layer.feed_norm, shape.norm_epsilon)
    return hidden + feed_forward(layer, normed), keys, values


def feed_forward(layer: Layer, normed: Tensor) -> Tensor:
    """Experts one row at a time, and whatever every row goes through."""
    answer = torch.zeros_like(normed)
    if layer.gate_up is not None and layer.down is not None:
        answer = answer + _swiglu(normed, layer.gate_up, layer.down)
    if layer.mixture is None:
        return answer
    gate_up, down = layer.mixture.stack.gate_up.values, layer.mixture.stack.down.values
    for row, sent in enumerate(routed(layer, normed)):
        for expert, weight in sent.items():
            own = _swiglu(normed[row], gate_up[expert], down[expert])
            answer[row] = answer[row] + weight * own
    return answer


def routed(layer: Layer, normed: Tensor) -> list[dict[int, float]]:
    """Of each row the experts and their weights, by sorting lists of numbers."""
    experts = layer.shape.experts
    assert experts is not None
    assert layer.router is not None
    scores = (normed @ layer.router.T).double()
    if experts.router is Router.SOFTMAX:
        rows = scores.softmax(dim=-1).tolist()
        return [{e: row[e] for e in _best(row, experts.active)} for row in rows]
    assert layer.router_bias is not None
    bias = layer.router_bias.tolist()
    found = []
    for row in scores.sigmoid().tolist():
        biased = [score + extra for score, extra in zip(row, bias, strict=True)]
        size = experts.count // experts.groups
        groups = [biased[g * size : (g + 1) * size] for g in range(experts.groups)]
        kept = _best([sum(sorted(group)[-2:]) for group in groups], experts.kept_groups)
        allowed = [b if e // size in kept else -math.inf for e, b in enumerate(biased)]
        chosen = _best(allowed, experts.active)
        total = sum(row[e] for e in chosen) if experts.active > 1 else 1.0
        found.append({e: row[e] / total * experts.scale for e in chosen})
    return found


def _best(values: list[float], count: int) -> list[int]:
    return sorted(range(len(values)), key=lambda at: -values[at])[:count]


def _swiglu(normed: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    gate, up = (normed @ gate_up.T).chunk(2, -1)
    return (F.silu(gate) * up) @ down.T


def _norm(hidden: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return hidden / (hidden.pow(2).mean(-1, keepdim=True) + epsilon).sqrt() * weight


def _rotate(heads: Tensor, first: int, theta: float, rotary: int | None = None) -> Tensor:
    if rotary is not None:
        parts = _rotate(heads[..., :rotary], first, theta), heads[..., rotary:]
        return torch.cat(parts, dim=-1)
    size = heads.shape[-1]
    position = torch.arange(first, first + len(heads), dtype=heads.dtype)
    frequency = theta ** (-torch.arange(0, size, 2, dtype=heads.dtype) / size)
    angle = torch.cat([position[:, None] * frequency] * 2, dim=-1)[:, None]
    half = torch.cat((-heads[..., size // 2 :], heads[..., : size // 2]), dim=-1)
    return heads * angle.cos() + half * angle.sin()


def greedy(logits: Logits) -> Candidates:
    """The most likely tokens and their probabilities as a decoder reads them, on the host."""
    return logits.read(logits.greedy)[0]
