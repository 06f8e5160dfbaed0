"""Times of passes: counted as the engine counts, and fitted so that nothing costs less than nothing."""

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.costs.counting import count_passes
from archer.costs.pass_times import Fitted, Losses, Roofline, Timed, share_operations
from archer.costs.roofline import GPUS, Gpu, floors, weights_held, weights_read
from archer.costs.shapes import shapes
from archer.costs.workload import PassShare, even
from archer.errors import BadRequest
from archer.network.network import Shape
from support.networks import MIXTURES, shape

NOTHING_LOST = Losses(efficiency=1.0, per_pass=0.0, per_row=0.0)
shares = st.lists(
    st.builds(PassShare, st.integers(1, 400), st.integers(1, 600), st.integers(1, 128)),
    min_size=1,
    max_size=8,
).map(tuple)
costs = st.floats(0, 1e-2, allow_subnormal=False)


@pytest.mark.parametrize(
    ("which", "shift"),
    [
        (shape(), False),
        (shape(shift=True, kv_heads=2), True),
        (replace(shape(), qk_norm=True, experts=MIXTURES["softmax"]), False),
        (replace(shape(kv_heads=2), qk_norm=True, experts=MIXTURES["grouped"]), False),
        (replace(shapes()["llada-8b"].shape, layers=2), False),
    ],
)
def test_operations_are_those_that_the_engine_counts(which: Shape, shift: bool) -> None:
    made = even(40, 16, 2, 1, extra=int(shift))
    counts = count_passes(which, 40, 16)
    assert [share_operations(which, share) for share in made.shares] == [counts.full, counts.cached]


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_without_losses_a_pass_takes_its_least_time(gpu: Gpu) -> None:
    which = shapes()["llada-8b"].shape
    full, cached = even(512, 256, 2, 1).shares
    times = Roofline(gpu, which, NOTHING_LOST)
    floor_full, floor_cached = floors(gpu, which, 512, 256)
    _, eight = floors(gpu, which, 512, 256, rows=8)
    assert times.seconds([full]) == pytest.approx(floor_full.seconds, rel=1e-12)
    assert times.seconds([cached]) == pytest.approx(floor_cached.seconds, rel=1e-12)
    assert times.seconds([cached] * 8) == pytest.approx(eight.seconds, rel=1e-12)
    lost = Roofline(gpu, which).seconds([cached] * 8)
    assert lost == pytest.approx(eight.seconds / 0.5 + 1e-3 + 8 * 3e-4)


def test_an_update_that_reuses_its_logits_costs_its_decision_alone() -> None:
    times = Roofline(GPUS[0], shapes()["llada-8b"].shape)
    assert times.seconds([PassShare(0, 0, 0)]) == Losses().per_row


def test_weights_are_those_that_the_model_is_named_for() -> None:
    billions = {name: weights_held(known.shape) / 1e9 for name, known in shapes().items()}
    assert 7.2 < billions["llada-moe-7b"] < 7.5
    assert 16 < billions["llada2-mini"] < 16.5
    dense = shapes()["llada-8b"].shape
    assert weights_held(dense) - weights_read(dense) == dense.width * dense.vocabulary


@given(st.lists(shares, min_size=12, max_size=30), st.tuples(costs, costs, costs, costs, costs))
def test_what_was_made_from_costs_is_fitted_by_them(
    passes: list[tuple[PassShare, ...]], made_of: tuple[float, ...]
) -> None:
    true = Fitted(1e-3 + made_of[0], *made_of[1:])
    timed = [Timed(each, true.seconds(each)) for each in passes]
    fitted = Fitted.to(timed)
    assert min(asdict(fitted).values()) >= 0
    assert fitted.error < 1e-4
    for each in timed:
        assert fitted.seconds(each.shares) == pytest.approx(each.seconds, rel=1e-2)


def test_noise_does_not_make_a_cost_negative() -> None:
    timed = [
        Timed((PassShare(columns, 600 - columns, 1),), seconds)
        for columns, seconds in zip(
            range(100, 600, 50), [5, 4, 4, 3, 3, 2, 2, 2, 1, 1], strict=True
        )
    ]
    fitted = Fitted.to(timed)
    assert min(asdict(fitted).values()) >= 0
    assert fitted.seconds((PassShare(100, 500, 1),)) > 0


def test_too_few_passes_are_refused() -> None:
    with pytest.raises(BadRequest, match="at least 5 timed passes, and here are 1"):
        Fitted.to([Timed((PassShare(1, 1, 1),), 1.0)])
