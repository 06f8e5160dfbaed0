"""Attention of many groups in one call equals a call for each, and can be differentiated."""

import sys
from itertools import accumulate, pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from archer.network.attention import (
    MOST_COPIED,
    AttentionView,
    attend,
    attend_packed,
    attend_together,
    packed_kernel,
)
from archer.network.differentiable import (
    Attention,
    fused_attention,
    hidden_states,
    spelled_attention,
)
from support import naive
from support.networks import backbone

groups = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 9)), min_size=1, max_size=5
)


def drawn(
    shapes: list[tuple[int, int, int]], heads: int, kv_heads: int, **options: Any
) -> tuple[Tensor, list[AttentionView], list[slice]]:
    """Queries, and for each group of (rows, queries each, keys) what it sees."""
    generator = torch.Generator().manual_seed(len(shapes))
    views, spans, taken = [], [], 0
    for rows, each, keys in shapes:
        size = (rows, kv_heads, keys, 8)
        made = (torch.randn(size, generator=generator, dtype=torch.float64) for _ in range(2))
        kept = [each_.to(**options) for each_ in made]
        views.append(AttentionView(kept[0], kept[1], rows * each))
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


def blockwise(length: int, block: int) -> list[AttentionView]:
    """What the blocks of one row see in its store under block-causal attention."""
    generator = torch.Generator().manual_seed(length)
    keys, values = (
        torch.randn((1, 2, length, 8), generator=generator, dtype=torch.float64) for _ in range(2)
    )
    stops = range(block, length + 1, block)
    return [AttentionView(keys[:, :, :stop], values[:, :, :stop], block) for stop in stops]


@pytest.mark.parametrize("lengths", [(32,), (4, 6), (4, 32, 8), (16, 24, 4), (2,) * 5, (64, 64)])
def test_a_row_of_many_blocks_is_not_packed_again_for_each_of_them(
    lengths: tuple[int, ...],
) -> None:
    views = [view for length in lengths for view in blockwise(length, 2)]
    bounds = [0, *accumulate(view.queries for view in views)]
    spans = [slice(*pair) for pair in pairwise(bounds)]
    generator = torch.Generator().manual_seed(1)
    queries = torch.randn((bounds[-1], 4, 8), generator=generator, dtype=torch.float64)
    packed = []

    def counted(asked: Tensor, keys: Tensor, values: Tensor, *rest: Any, **options: Any) -> Tensor:
        packed.append(len(keys))
        assert len(values) == len(keys)
        return plain_kernel(asked, keys, values, *rest, **options)

    together = attend_together(queries, views, spans, counted)
    assert torch.allclose(together, attend(queries, views, spans), atol=1e-12)
    assert len(packed) == (min(lengths) <= 6), "short rows share one call"
    assert sum(packed) <= MOST_COPIED * sum(lengths)


@pytest.mark.parametrize("there", [True, False])
def test_a_kernel_is_used_where_torch_has_one(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    """Without one, as in older versions, every group has a call of its own, as on a processor."""
    module = SimpleNamespace(varlen_attn=plain_kernel) if there else None
    monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", module)
    packed_kernel.cache_clear()
    found = packed_kernel("cuda", torch.bfloat16)
    others = packed_kernel("cpu", torch.bfloat16), packed_kernel("cuda", torch.float32)
    packed_kernel.cache_clear()
    assert found is (plain_kernel if there else None)
    assert others == (None, None)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="variable-length attention needs CUDA")
def test_the_kernel_of_torch_equals_a_call_for_each_group() -> None:
    from torch.nn.attention.varlen import varlen_attn

    queries, views, spans = drawn([(1, 5, 9), (2, 3, 4)], 4, 2, device="cuda", dtype=torch.bfloat16)
    apart = torch.cat([attend(queries[s], [v], [s]) for s, v in zip(spans, views, strict=True)])
    packed = attend_packed(queries, views, varlen_attn)
    assert torch.allclose(apart.float(), packed.float(), atol=2e-2)


PROMPT, LENGTH = 5, 4
KERNELS = pytest.mark.parametrize("attention", [fused_attention, spelled_attention])
SHIFTS = pytest.mark.parametrize("shift", [False, True])
"""With the shift, two query heads share a key head."""


def tokens(rows: int, seed: int = 0) -> Tensor:
    return torch.randint(40, (rows, PROMPT + LENGTH), generator=torch.Generator().manual_seed(seed))


@KERNELS
@SHIFTS
def test_every_row_is_as_in_the_slow_pass(attention: Attention, shift: bool) -> None:
    network = backbone(shift, 4, torch.float64).network
    drawn = tokens(3)
    hidden = hidden_states(network, network.embed(drawn), attention=attention)
    for row, states in zip(drawn, hidden, strict=True):
        torch.testing.assert_close(network.score(states), naive.forward(network, row)[0])


@KERNELS
@SHIFTS
def test_a_held_prompt_is_a_cached_pass(attention: Attention, shift: bool) -> None:
    net = backbone(shift, 4, torch.float64)
    network, boundary = net.network, PROMPT - int(shift)
    anchor, now = tokens(2, 1), tokens(2, 2)
    now[:, :PROMPT] = anchor[:, :PROMPT]
    kept: list[tuple[Tensor, Tensor]] = []
    hidden_states(network, network.embed(anchor), attention=attention, kept=kept)
    held = [(keys[:, :boundary], values[:, :boundary]) for keys, values in kept]
    hidden = hidden_states(network, network.embed(now), attention=attention, held=held)
    for row in range(2):
        prompt, before = anchor[row].split([PROMPT, LENGTH])
        expected = naive.cached(network, prompt, before, now[row, PROMPT:], shift)
        scores = network.score(hidden[row, boundary : boundary + LENGTH])
        torch.testing.assert_close(scores, expected)


@SHIFTS
def test_both_kernels_have_the_same_gradient(shift: bool) -> None:
    network = backbone(shift, 4, torch.float64).network
    found = []
    for attention in (fused_attention, spelled_attention):
        embedded = network.embed(tokens(2)).clone().requires_grad_(True)
        hidden_states(network, embedded, attention=attention).pow(2).sum().backward()
        found.append(embedded.grad)
    assert found[0] is not None
    torch.testing.assert_close(found[0], found[1])
