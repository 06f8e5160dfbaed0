"""Attention of many groups in one call equals a call for each."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from archer.engine.attention import View, attend, attend_packed

groups = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 9)), min_size=1, max_size=5
)


def drawn(
    shapes: list[tuple[int, int, int]], heads: int, kv_heads: int, **options: Any
) -> tuple[Tensor, list[View], list[slice]]:
    """Queries, and for each group of (rows, queries each, keys) what it sees."""
    generator = torch.Generator().manual_seed(len(shapes))
    views, spans, taken = [], [], 0
    for rows, each, keys in shapes:
        size = (rows, kv_heads, keys, 8)
        made = (torch.randn(size, generator=generator, dtype=torch.float64) for _ in range(2))
        kept = [each_.to(**options) for each_ in made]
        views.append(View(kept[0], kept[1], rows * each))
        spans.append(slice(taken, taken := taken + rows * each))
    queries = torch.randn((taken, heads, 8), generator=generator, dtype=torch.float64)
    return queries.to(**options), views, spans


def plain_kernel(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    query_bounds: Tensor,
    key_bounds: Tensor,
    most_queries: int,
    most_keys: int,
    enable_gqa: bool,
) -> Tensor:
    """The naive twin of a variable-length kernel: one sequence after the other."""
    assert query_bounds.dtype == key_bounds.dtype == torch.int32
    parts = []
    for at in range(len(query_bounds) - 1):
        asked = queries[query_bounds[at] : query_bounds[at + 1]]
        seen = slice(int(key_bounds[at]), int(key_bounds[at + 1]))
        assert len(asked) <= most_queries
        assert seen.stop - seen.start <= most_keys
        parts.append(
            F.scaled_dot_product_attention(
                asked.transpose(0, 1),
                keys[seen].transpose(0, 1),
                values[seen].transpose(0, 1),
                enable_gqa=enable_gqa,
            ).transpose(0, 1)
        )
    return torch.cat(parts)


@settings(max_examples=50)
@given(groups, st.sampled_from([(4, 4), (4, 2), (4, 1)]))
def test_one_packed_call_equals_a_call_for_each_group(
    shapes: list[tuple[int, int, int]], heads: tuple[int, int]
) -> None:
    queries, views, spans = drawn(shapes, *heads)
    apart = attend(queries, views, spans)
    packed = attend_packed(queries, views, plain_kernel)
    assert torch.allclose(apart, packed, atol=1e-12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="variable-length attention needs CUDA")
def test_the_kernel_of_torch_equals_a_call_for_each_group() -> None:
    from torch.nn.attention.varlen import varlen_attn

    queries, views, spans = drawn([(1, 5, 9), (2, 3, 4)], 4, 2, device="cuda", dtype=torch.bfloat16)
    apart = torch.cat([attend(queries[s], [v], [s]) for s, v in zip(spans, views, strict=True)])
    packed = attend_packed(queries, views, varlen_attn)
    assert torch.allclose(apart.float(), packed.float(), atol=2e-2)
