"""Attention of packed queries over views of stores: one call per group of rows, or one for all of them.

Axes: n query rows of a group, R sequences in it, Q = n / R queries each, S keys, H / KV heads, D head size.

Which keys a query sees is decided by whoever makes the views; on a processor no key or value is copied.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from archer.network.shape import AttentionKind, Blocks, Dense

PACKED_DTYPES = (torch.float16, torch.bfloat16)
"""What the variable-length kernel takes."""
MOST_COPIED = 2
"""How often the keys of a row are packed for one call at most, on the average of its columns."""


def seen(kind: AttentionKind, queries: Tensor, keys: Tensor, prompt: int) -> Tensor | None:
    """Bool[Q, S]: which key columns each query column sees, Long[S] and Long[Q]; None where it sees all.

    The rule as a mask, for those who do not attend block by block.  `prompt`: columns of the prompt.
    """
    if isinstance(kind, Dense):
        return None
    if isinstance(kind, Blocks):
        return kind.index(queries, prompt)[:, None] >= kind.index(keys, prompt)
    return (queries[:, None] >= prompt) | (keys < prompt)


@dataclass(frozen=True)
class AttentionView:
    """What one group of rows sees."""

    keys: Tensor
    """[R, KV, S, D]"""
    values: Tensor
    """[R, KV, S, D]"""
    queries: int
    """n: how many query rows the group has."""
    visible: Tensor | None = None
    """Bool[R, Q, S]: None means everything."""


def attend(queries: Tensor, views: Sequence[AttentionView], spans: Sequence[slice]) -> Tensor:
    """[N, H, D] rotated queries, of which those of each span see one view -> [N, H, D].

    The spans follow each other without a gap.  Where device and torch have variable-length attention one call
    serves groups of different rows; otherwise there is a call for each, which copies nothing.
    """
    if len(views) == 1:
        return attend_group(queries, views[0])
    dense = all(view.visible is None for view in views)
    kernel = packed_kernel(queries.device.type, queries.dtype) if dense else None
    if kernel is not None:
        return attend_together(queries, views, spans, kernel)
    return torch.cat(
        [queries[:0], *(attend_group(queries[s], v) for s, v in zip(spans, views, strict=True))]
    )


def attend_together(
    queries: Tensor,
    views: Sequence[AttentionView],
    spans: Sequence[slice],
    kernel: Callable[..., Any],
) -> Tensor:
    """The same with one call of a variable-length kernel for all views but those that overlap too much.

    The kernel wants every view's keys packed.  Under block-causal attention a row has a view for each of its
    blocks; packed again and again, its keys would take memory quadratic in its length.  Such views get calls
    of their own.
    """
    packed = packable(views)
    if len(packed) == len(views):
        return attend_packed(queries, views, kernel)
    parts = {
        at: attend_group(queries[spans[at]], views[at])
        for at in range(len(views))
        if at not in packed
    }
    if packed:
        chosen = sorted(packed)
        own_queries = torch.cat([queries[spans[at]] for at in chosen])
        answer = attend_packed(own_queries, [views[at] for at in chosen], kernel)
        parts.update(zip(chosen, answer.split([views[at].queries for at in chosen]), strict=True))
    return torch.cat([parts[at] for at in range(len(views))])


def packable(views: Sequence[AttentionView]) -> set[int]:
    """The views of rows whose views have at most `MOST_COPIED` times the row's own columns."""
    of_row: dict[int, list[int]] = defaultdict(list)
    for at, view in enumerate(views):
        of_row[view.keys.data_ptr()].append(at)
    places: set[int] = set()
    for own in of_row.values():
        columns = [views[at].keys.shape[2] for at in own]
        if sum(columns) <= MOST_COPIED * max(columns):
            places.update(own)
    return places


@lru_cache
def packed_kernel(device: str, dtype: torch.dtype) -> Callable[..., Any] | None:
    """Variable-length attention where there is one; older versions and some builds of torch have none."""
    if device != "cuda" or dtype not in PACKED_DTYPES:
        return None
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    kernel: Callable[..., Any] = varlen_attn
    return kernel


def attend_packed(
    queries: Tensor, views: Sequence[AttentionView], kernel: Callable[..., Any]
) -> Tensor:
    """The same in one call of a variable-length kernel; keys and values are packed like the queries."""
    keys = torch.cat([view.keys.transpose(1, 2).flatten(0, 1) for view in views])
    values = torch.cat([view.values.transpose(1, 2).flatten(0, 1) for view in views])
    queries_of = [
        view.queries // view.keys.shape[0] for view in views for _ in range(len(view.keys))
    ]
    seen = [view.keys.shape[2] for view in views for _ in range(len(view.keys))]
    answer: Tensor = kernel(
        queries,
        keys,
        values,
        _bounds(tuple(queries_of), queries.device),
        _bounds(tuple(seen), queries.device),
        max(queries_of),
        max(seen),
        enable_gqa=queries.shape[1] != keys.shape[1],
    )
    return answer


@lru_cache(maxsize=256)
def _bounds(lengths: tuple[int, ...], device: torch.device) -> Tensor:
    """Int32[R + 1]: where each sequence begins and the last one ends; the same in every layer of a pass."""
    return torch.tensor([0, *accumulate(lengths)], dtype=torch.int32).to(device)


def attend_group(queries: Tensor, view: AttentionView) -> Tensor:
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
