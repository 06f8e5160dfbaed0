"""Attention of packed queries over views of stores: one call per group of rows, or one for all of them.

Axes: n query rows of a group, R sequences in it, Q = n / R queries each, S keys, H / KV heads, D head size.

Which keys a query sees is decided by whoever makes the views; on a processor no key or value is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

PACKED_DTYPES = (torch.float16, torch.bfloat16)
"""What the variable-length kernel takes."""


@dataclass(frozen=True)
class View:
    """What one group of rows sees."""

    keys: Tensor
    """[R, KV, S, D]"""
    values: Tensor
    """[R, KV, S, D]"""
    queries: int
    """n: how many query rows the group has."""
    visible: Tensor | None = None
    """Bool[R, Q, S]: None means everything."""


def attend(queries: Tensor, views: Sequence[View], spans: Sequence[slice]) -> Tensor:
    """[N, H, D] rotated queries, of which those of each span see one view -> [N, H, D].

    The spans follow each other without a gap.  Where a device has variable-length attention one call serves
    all groups; a processor is faster with a call for each, which copies nothing.
    """
    if len(views) == 1:
        return attend_group(queries, views[0])
    dense = all(view.visible is None for view in views)
    if dense and queries.device.type == "cuda" and queries.dtype in PACKED_DTYPES:
        from torch.nn.attention.varlen import varlen_attn  # not part of every build of torch

        return attend_packed(queries, views, varlen_attn)
    return torch.cat(
        [queries[:0], *(attend_group(queries[s], v) for s, v in zip(spans, views, strict=True))]
    )


def attend_packed(queries: Tensor, views: Sequence[View], kernel: Callable[..., Any]) -> Tensor:
    """The same in one call of a variable-length kernel; keys and values are packed like the queries."""
    keys = torch.cat([view.keys.transpose(1, 2).flatten(0, 1) for view in views])
    values = torch.cat([view.values.transpose(1, 2).flatten(0, 1) for view in views])
    asked = [view.queries // view.keys.shape[0] for view in views for _ in range(len(view.keys))]
    seen = [view.keys.shape[2] for view in views for _ in range(len(view.keys))]
    answer: Tensor = kernel(
        queries,
        keys,
        values,
        _bounds(tuple(asked), queries.device),
        _bounds(tuple(seen), queries.device),
        max(asked),
        max(seen),
        enable_gqa=queries.shape[1] != keys.shape[1],
    )
    return answer


@lru_cache(maxsize=256)
def _bounds(lengths: tuple[int, ...], device: torch.device) -> Tensor:
    """Int32[R + 1]: where each sequence begins and the last one ends; the same in every layer of a pass."""
    return torch.tensor([0, *accumulate(lengths)], dtype=torch.int32).to(device)


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
