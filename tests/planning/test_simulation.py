"""The simulation loses nothing, invents nothing, and its time never runs back."""

from collections.abc import Callable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from archer.costs.workload import PassShare, even
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
