"""One plain pass that can be differentiated: what training and the relaxed studies compute with.

Axes: B rows, L columns, P prompt columns, d width, H / KV heads, D head size.

It uses the weights of `Transformer` and equals a full pass of `forward`, which is neither differentiated nor
free of writes.  With the keys and values of the first columns held it is the map of a cached pass.  Rows are
whole and equally long; nothing is stored.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from archer.errors import BadRequest
from archer.network.network import Transformer

KeysAndValues: TypeAlias = Sequence[tuple[Tensor, Tensor]]
"""Per layer the keys (rotated) and values of the first columns, [B, P, KV, D] each."""
Attention: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Queries [B, L, H, D], keys and values [B, L, H, D] -> [B, L, H, D]."""


def fused_attention(
    queries: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None = None
) -> Tensor:
    """Torch's own kernel: fast, and differentiated backward only; `visible` Bool[B, L, L], query by key."""
    queries, keys, values = (each.transpose(1, 2) for each in (queries, keys, values))
    seen = None if visible is None else visible[:, None]
    answer = F.scaled_dot_product_attention(queries, keys, values, attn_mask=seen)
    return answer.transpose(1, 2)


def spelled_attention(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """The same in plain products, which have a forward mode, too."""
    scores = torch.einsum("bqhd,bkhd->bhqk", queries, keys) / queries.shape[-1] ** 0.5
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(dim=-1), values)


def hidden_states(
    network: Transformer,
    embedded: Tensor,
    *,
    attention: Attention = fused_attention,
    held: KeysAndValues | None = None,
    kept: list[tuple[Tensor, Tensor]] | None = None,
    after: list[Tensor] | None = None,
) -> Tensor:
    """[B, L, d] -> [B, L, d], before the final norm.

    `held` replaces what the first columns offer to the others; `kept` collects what all of them offer, and
    `after` what each layer hands on.
    """
    if network.scheme.whole and not torch.is_inference_mode_enabled():
        raise BadRequest(
            f"Rows rounded to eight bits ({network.scheme.value}) have no derivative. Load the model without "
            "quantize."
        )
    rows, columns, _ = embedded.shape
    shape = network.shape
    angles = network.angles(torch.arange(columns, device=embedded.device).repeat(rows))
    hidden = embedded.flatten(0, 1)
    for index in range(shape.layers):
        layer = network.layer(index)
        projected = layer.project(layer.normed(hidden), angles)
        queries, keys, values = (
            heads.view(rows, columns, -1, shape.head_dim) for heads in projected
        )
        if kept is not None:
            kept.append((keys, values))
        if held is not None:
            prompt = held[index][0].shape[1]
            keys = torch.cat((held[index][0], keys[:, prompt:]), dim=1)
            values = torch.cat((held[index][1], values[:, prompt:]), dim=1)
        if shape.kv_heads < shape.heads:
            group = shape.heads // shape.kv_heads
            keys, values = (each.repeat_interleave(group, dim=2) for each in (keys, values))
        hidden = hidden + layer.mix(attention(queries, keys, values).flatten(0, 1))
        hidden = hidden + layer.feed_forward(hidden)
        if after is not None:
            after.append(hidden)
    return hidden.view_as(embedded)
