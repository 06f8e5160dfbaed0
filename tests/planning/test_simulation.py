"""The simulation loses nothing and invents nothing; pass times are counted as the engine counts."""

from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import pairwise

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
from archer.planning.simulation import (
    ActiveRequest,
    EngineScheduler,
    SimulatedRequest,
    SimulatedTurn,
    alone,
    outcome,
    simulate,
)
from planning.against_server import clients
from planning.drawing import COSTS, InBatches, requests, schedulers
from support.networks import MIXTURES, shape

times = st.lists(st.floats(0, 3, allow_subnormal=False), min_size=14, max_size=14)
SLACK = 1e-9


class Watched(EngineScheduler):
    """A scheduler that notes when it was told and asked what."""

    def __init__(self, inner: EngineScheduler) -> None:
        self.inner = inner
        self.moments: list[float] = []
        self.taken: list[int] = []
        self.shares: list[PassShare] = []

    def take(self, asked: ActiveRequest) -> None:
        self.taken.append(asked.number)
        self.inner.take(asked)

    def turn(self, now: float) -> SimulatedTurn | None:
        self.moments.append(now)
        made = self.inner.turn(now)
        self.shares += () if made is None else made.shares
        return made

    def took(self, turn: SimulatedTurn, seconds: float) -> None:
        self.inner.took(turn, seconds)


@given(requests, times, schedulers, st.integers(1, 3))
def test_nobody_is_lost_or_faster_than_alone_and_time_goes_forward(
    asked: list[SimulatedRequest],
    moments: list[float],
    make: Callable[[], EngineScheduler],
    gpus: int,
) -> None:
    made: list[Watched] = []

    def watched() -> Watched:
        made.append(Watched(make()))
        return made[-1]

    moments = moments[: len(asked)]
    ran = simulate(asked, moments, watched, COSTS, gpus)
    assert [each.number for each in ran.answered] == list(range(len(asked)))
    assert sorted(number for way in made for number in way.taken) == list(range(len(asked)))
    wanted = [share for request in asked for share in request.trajectory.shares]
    assert sorted(share for way in made for share in way.shares) == sorted(wanted)
    assert ran.columns == sum(share.columns for share in wanted)
    for way in made:
        assert way.moments == sorted(way.moments)
    for each in ran.answered:
        assert each.at == moments[each.number]
        passes = [share for share in asked[each.number].trajectory.shares if share.columns]
        assert each.seconds >= sum(COSTS.seconds((share,)) for share in passes) - SLACK
    last = max(each.ended for each in ran.answered)
    assert ran.busy <= gpus * (last - min(moments)) + SLACK


@given(requests, times)
def test_one_at_a_time_is_first_come_first_served(
    asked: list[SimulatedRequest], moments: list[float]
) -> None:
    arrivals = moments[: len(asked)]
    ran = simulate(asked, arrivals, lambda: InBatches(1), COSTS)
    now = 0.0
    for number in sorted(range(len(asked)), key=lambda number: (arrivals[number], number)):
        now = max(now, arrivals[number]) + alone(asked[number], COSTS)
        assert abs(ran.answered[number].ended - now) < SLACK


@given(requests, st.integers(1, 5), schedulers)
def test_clients_ask_one_after_the_other(
    asked: list[SimulatedRequest], count: int, make: Callable[[], EngineScheduler]
) -> None:
    first, after = clients(count, len(asked))
    ran = simulate(asked, first, make, COSTS, after=after)
    assert len(ran.answered) == len(asked)
    for each in ran.answered:
        there = [o for o in ran.answered if o.at <= each.at < o.ended]
        assert len(there) <= count


@given(st.integers(1, 60), st.integers(1, 60), st.data())
def test_refreshes_are_spread_evenly(length: int, updates: int, data: st.DataObject) -> None:
    full = data.draw(st.integers(1, updates))
    made = even(100, length, updates, full)
    whole = [index for index, share in enumerate(made.shares) if share.columns == 100 + length]
    assert len(whole) == full
    assert whole[0] == 0
    gaps = [after - before for before, after in pairwise(whole)]
    assert not gaps or max(gaps) - min(gaps) <= 1
    assert made.masks[0] == length
    assert list(made.masks) == sorted(made.masks, reverse=True)


def test_more_gpus_share_the_requests() -> None:
    asked = [SimulatedRequest(even(8, 8, 4, 1)) for _ in range(4)]
    ran = simulate(asked, [0.0] * 4, lambda: EngineScheduler(1), COSTS, gpus=4)
    own = alone(asked[0], COSTS)
    assert [each.ended for each in ran.answered] == [own] * 4


def test_what_is_told_is_what_the_benches_tell() -> None:
    """Goodput counts those within three times the time alone, per second from first arrival to last end."""
    asked = [SimulatedRequest(even(8, 8, 4, 1)) for _ in range(5)]
    ran = simulate(asked, [0.0] * 5, lambda: InBatches(1), COSTS)
    own = [alone(request, COSTS) for request in asked]
    told = outcome(ran.answered, own)
    assert told.in_time == 3 / 5
    assert told.goodput == 3 / (5 * own[0])
    assert told.throughput == 1 / own[0]
    assert told.p50 == 3 * own[0]


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
