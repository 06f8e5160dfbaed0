"""Attention of packed queries over views of stores: one call per group of rows, or one for all of them.

Axes: n query rows of a group, R sequences in it, Q = n / R queries each, S keys, H / KV heads, D head size.

Which keys a query sees is decided by whoever makes the views; on a processor no key or value is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class View:
    """What one group of rows sees."""

    keys: Tensor
    """[R, KV, S, D]"""
    values: Tensor
    """[R, KV, S, D]"""
    visible: Tensor | None = None
    """Bool[R, Q, S]: None means everything."""


def attend(queries: Tensor, views: Sequence[View], spans: Sequence[slice]) -> Tensor:
    """[N, H, D] rotated queries, of which those of each span see one view -> [N, H, D]."""
    if len(views) == 1:
        return attend_group(queries, views[0])
    return torch.cat(
        [queries[:0], *(attend_group(queries[s], v) for s, v in zip(spans, views, strict=True))]
    )


def attend_group(queries: Tensor, view: View) -> Tensor:
    """[n, H, D] -> [n, H, D].  Query heads that share a key head are folded into its query axis."""
    rows, heads = view.keys.shape[:2]
    each, group = queries.shape[0] // rows, queries.shape[1] // heads
    folded = queries.view(rows, each, heads, group, -1).permute(0, 2, 3, 1, 4)
    seen = view.visible
    answer = F.scaled_dot_product_attention(
        folded.reshape(rows, heads, group * each, -1),
        view.keys,
        view.values,
        attn_mask=None if seen is None else seen.repeat(1, group, 1)[:, None],
    )
    answer = answer.view(rows, heads, group, each, -1).permute(0, 3, 1, 2, 4)
    return answer.reshape(queries.shape)
