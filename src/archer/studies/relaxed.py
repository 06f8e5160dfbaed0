"""The network as a smooth function of the response's embeddings, and its derivative along a token.

Axes: L columns, P prompt columns, G response columns, d width, H / KV heads, D head size, V vocabulary.

The paper's continuous relaxation y = E(g). One plain pass over the weights of `Transformer`, equal to a
full pass of `archer.engine.forward`, which is neither differentiated nor free of writes. With the prompt's
keys and values held it is the anchored map, whose derivative lacks the path through the prompt.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from archer.engine.network import Layer, Transformer
from archer.model import Model

Held = Sequence[tuple[Tensor, Tensor]]
"""Per layer the prompt's keys (rotated) and values, [P, KV, D]."""


@dataclass(frozen=True)
class Derivatives:
    """Of the response's logits along one direction, [G, V] each."""

    fresh: Tensor
    """J_fresh: with the path through the prompt."""
    anchored: Tensor
    """J_anchor: the prompt's keys and values held where they are."""
    logits: Tensor

    @property
    def feedback(self) -> Tensor:
        """What the prompt adds: the derivative of the cache times that of the answer by the cache."""
        return self.fresh - self.anchored


def along(model: Model, tokens: Tensor, prompt: int, position: int, token: int) -> Derivatives:
    """Derivatives at the tokens Long[L] towards `token` from the mask at a response position."""
    network, shift = model.network, model.folder.architecture.shift
    embedded = network.embed(tokens)
    ends = network.embed(torch.tensor([token, model.folder.mask], device=tokens.device))
    direction = torch.zeros_like(embedded[prompt:])
    direction[position] = ends[0] - ends[1]
    kept: list[tuple[Tensor, Tensor]] = []
    boundary = prompt - int(shift)
    _pass(network, embedded, boundary, kept=kept)

    def answered(held: Held | None) -> Callable[[Tensor], Tensor]:
        def logits(response: Tensor) -> Tensor:
            whole = torch.cat((embedded[:prompt], response))
            hidden = _pass(network, whole, boundary, held=held)
            return network.score(hidden[boundary : boundary + len(response)])

        return logits

    logits, fresh = _forward_mode(answered(None), embedded[prompt:], direction)
    _, anchored = _forward_mode(answered(kept), embedded[prompt:], direction)
    return Derivatives(fresh, anchored, logits)


def _forward_mode(
    function: Callable[[Tensor], Tensor], at: Tensor, direction: Tensor
) -> tuple[Tensor, Tensor]:
    """Value and directional derivative. Torch's first use of forward mode warns about torch itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        result = torch.func.jvp(function, (at,), (direction,))
    return result[0], result[1]


def _pass(
    network: Transformer,
    hidden: Tensor,
    boundary: int,
    *,
    held: Held | None = None,
    kept: list[tuple[Tensor, Tensor]] | None = None,
) -> Tensor:
    """[L, d] -> [L, d]; `held` replaces what the columns before `boundary` offer, `kept` collects it."""
    angles = network.angles(torch.arange(len(hidden), device=hidden.device))
    for index in range(network.shape.layers):
        layer = network.layer(index)
        queries, keys, values = layer.project(layer.normed(hidden), angles)
        if kept is not None:
            kept.append((keys[:boundary], values[:boundary]))
        if held is not None:
            keys = torch.cat((held[index][0], keys[boundary:]))
            values = torch.cat((held[index][1], values[boundary:]))
        hidden = hidden + layer.mix(_attend(layer, queries, keys, values))
        hidden = hidden + layer.feed_forward(hidden)
    return hidden


def _attend(layer: Layer, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """[L, H, D], [L, KV, D], [L, KV, D] -> [L, H, D], spelled out: the fused kernel has no forward mode."""
    group = layer.shape.heads // layer.shape.kv_heads
    keys, values = (each.repeat_interleave(group, dim=1) for each in (keys, values))
    scores = torch.einsum("qhd,khd->hqk", queries, keys) / layer.shape.head_dim**0.5
    return torch.einsum("hqk,khd->qhd", scores.softmax(dim=-1), values)
