"""Counted operations against closed forms, and what the cost model makes of them."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from archer.bench.step_variants import NEVER, StepVariants
from archer.costs.counting import Counts, count_passes, eta, speedup, step_speedup
from archer.costs.roofline import GPUS, Gpu, floor, floors, kv_numbers, weights_read
from archer.costs.shapes import Published, shapes
from archer.network.network import Shape, Transformer
from archer.network.shape import DENSE, Blocks
from archer.passes.work import operations
from support.networks import MIXTURES, mixture, tiny

lengths = st.integers(1, 40)


def closed_form(shape: Shape, shift: bool, p: int, g: int) -> Counts:
    """Straight from the sizes of the matrices; the engine has no part in it."""
    d, f, layers = shape.width, shape.inner, shape.layers
    h, kv, n = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim, p + g
    own = g + int(shift)

    def layer(keys: int, mixed: int) -> int:
        return 2 * (2 * keys * d * kv + mixed * (2 * d * h + 3 * d * f) + 2 * mixed * n * h)

    head = 2 * g * d * shape.vocabulary
    return Counts(
        full=(layers - 1) * layer(n, n) + layer(n, g) + head,
        cached=(layers - 1) * layer(own, own) + layer(own, g) + head,
        naive=layers * layer(n, n) + 2 * n * d * shape.vocabulary,
    )


@given(p=lengths, g=lengths, layers=st.integers(1, 4), shift=st.booleans())
def test_counted_passes_are_the_closed_form(p: int, g: int, layers: int, shift: bool) -> None:
    shape = replace(tiny(shift).network.shape, layers=layers)
    assert count_passes(shape, p, g) == closed_form(shape, shift, p, g)


def closed_form_of_a_mixture(shape: Shape, p: int, g: int, block: int | None) -> Counts:
    """Row by row and layer by layer; neither the engine nor its cost model has a part in it.

    A row of a layer with experts goes through the router, its k experts and the shared one.  Under
    block-causal attention a row sees the blocks up to its own, a cached pass begins where the block with the
    response's first token does, and the naive pass multiplies what it masks as well.
    """
    experts = shape.experts
    assert experts is not None
    d, n, h, kv = shape.width, p + g, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    gate_up_down = 3 * d
    dense = gate_up_down * shape.inner
    sparse = d * experts.count + gate_up_down * (experts.active * experts.inner + experts.shared)

    def seen(row: int) -> int:
        return n if block is None else min(n, (row // block + 1) * block)

    def cost(first: int, *, prune: bool) -> int:
        products = 0
        for layer in range(shape.layers):
            for row in range(first, n):
                products += 2 * d * kv
                if prune and layer == shape.layers - 1 and row < p:
                    continue
                products += 2 * d * h + 2 * h * (seen(row) if prune else n)
                products += dense if layer < experts.dense_layers else sparse
        scored = g if prune else n - first
        return 2 * (products + scored * d * shape.vocabulary)

    begin = p if block is None else p // block * block
    return Counts(
        full=cost(0, prune=True), cached=cost(begin, prune=True), naive=cost(0, prune=False)
    )


@settings(max_examples=12, deadline=None)
@given(
    p=lengths,
    g=lengths,
    kind=st.sampled_from(sorted(MIXTURES)),
    block=st.sampled_from([None, 1, 4, 32]),
    layers=st.integers(1, 4),
    dense=st.integers(0, 2),
    shared=st.sampled_from([0, 8]),
    inner=st.sampled_from([8, 24]),
)
def test_counted_passes_of_a_mixture_are_the_closed_form(
    p: int,
    g: int,
    kind: str,
    block: int | None,
    layers: int,
    dense: int,
    shared: int,
    inner: int,
) -> None:
    which = mixture(kind).network.shape
    experts = replace(MIXTURES[kind], inner=inner, shared=shared, dense_layers=min(dense, layers))
    attention = DENSE if block is None else Blocks(block)
    which = replace(which, layers=layers, inner=40, experts=experts, attention=attention)
    wanted = closed_form_of_a_mixture(which, p, g, block)
    assert count_passes(which, p, g) == wanted


@pytest.mark.parametrize(("name", "block"), [("llada-moe-7b", None), ("llada2-mini", 32)])
def test_counted_passes_of_the_published_mixtures_are_the_closed_form(
    name: str, block: int | None
) -> None:
    known = shapes()[name]
    assert known.shape.attention == (DENSE if block is None else Blocks(block))
    wanted = closed_form_of_a_mixture(known.shape, 70, 64, block)
    assert count_passes(known.shape, 70, 64) == wanted


@pytest.mark.parametrize("shift", [False, True])
def test_a_step_that_runs_counts_what_one_without_data_counts(shift: bool) -> None:
    subject = tiny(shift)
    alternatives = StepVariants.at(subject, 12, 8)
    shape = subject.network.shape
    counted = count_passes(shape, 12, 8)
    assert operations(alternatives.refreshing(1)().work, shape) == counted.full
    assert operations(alternatives.refreshing(NEVER)().work, shape) == counted.cached


@pytest.mark.parametrize("name", ["llada-8b", "dream-7b"])
def test_the_published_shapes_hold_as_many_weights_as_the_models(name: str) -> None:
    known = shapes()[name]
    network = Transformer(known.shape, device=torch.device("meta"))
    billions = sum(each.numel() for each in network.parameters()) / 1e9
    assert round(billions, 3) == {"llada-8b": 8.016, "dream-7b": 7.616}[name]
    embedding = known.shape.vocabulary * known.shape.width
    matrices = sum(each.numel() for each in network.parameters() if each.dim() == 2)
    assert weights_read(known.shape) == matrices - embedding


def test_against_the_naive_pass_a_cached_one_saves_exactly_the_rows() -> None:
    """Without pruning every row costs the same, so eta is exact: 1 + P / G."""
    shape = shapes()["llada-8b"].shape
    for prompt, limit in ((128, 1.5), (256, 2.0), (512, 3.0), (1024, 5.0), (2048, 9.0)):
        counts = count_passes(shape, prompt, 256)
        assert counts.naive / counts.cached == limit == 1 / eta(prompt, 256)
        assert counts.full / counts.cached < limit


@given(
    eager=st.integers(1, 300),
    updates=st.integers(1, 300),
    share=st.floats(0, 1),
    p=st.integers(0, 4096),
    g=st.integers(1, 1024),
)
def test_the_predicted_speedup_lies_between_no_cache_and_no_refresh(
    eager: int, updates: int, share: float, p: int, g: int
) -> None:
    """Invariant 34."""
    ratio, full = eta(p, g), round(share * updates)
    predicted = speedup(eager, updates, full, ratio)
    low, high = eager / updates, eager / (updates * ratio)
    assert low * (1 - 1e-12) <= predicted <= high * (1 + 1e-12)


def test_the_ends_of_the_cost_model() -> None:
    assert speedup(10, 10, 10, 0.5) == 1.0
    assert speedup(10, 10, 0, 0.5) == 2.0
    assert speedup(20, 10, 10, 0.5) == 2.0
    assert step_speedup(0.25, 0.2) == pytest.approx(2.5)


def test_a_floor_is_the_longer_of_arithmetic_and_traffic() -> None:
    gpu = Gpu("any", flops=100.0, bandwidth=10.0)
    assert floor(gpu, operations=1000, numbers=10) == floor(gpu, 1000, 50)
    assert (floor(gpu, 1000, 10).seconds, floor(gpu, 1000, 10).limit) == (10.0, "compute")
    assert (floor(gpu, 10, 50).seconds, floor(gpu, 10, 50).limit) == (10.0, "bandwidth")


def test_floors_of_known_gpus() -> None:
    """Compute-bound where the GPU is slow against its memory; a batch makes every GPU so."""
    known: Published = shapes()["llada-8b"]
    by_name = {gpu.name: gpu for gpu in GPUS}
    h100 = floors(by_name["H100 SXM"], known.shape, 512, 256)
    assert [each.limit for each in h100] == ["compute", "bandwidth"]
    assert h100[0].seconds == pytest.approx(11.2e-3, rel=0.01)
    a100 = floors(by_name["A100 80GB"], known.shape, 512, 256)
    assert [each.limit for each in a100] == ["compute", "compute"]
    assert a100[1].seconds == pytest.approx(12.6e-3, rel=0.01)
    batch = floors(by_name["H100 SXM"], known.shape, 512, 256, rows=4)
    assert [each.limit for each in batch] == ["compute", "compute"]
    assert kv_numbers(known.shape, 1) * 2 == 524288
