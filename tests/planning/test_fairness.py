"""Three owners, one of them greedy: the others hardly notice. The engine's own schedule on a fake clock."""

import itertools
import random
from collections.abc import Sequence
from itertools import accumulate, takewhile

import pytest

from archer.costs.pass_times import Fitted, PassTimes, Roofline
from archer.costs.roofline import GPUS
from archer.costs.service import percentile
from archer.costs.shapes import published
from archer.costs.workload import Workload, even
from archer.planning.simulation import EngineScheduler, SimulatedRequest, alone, simulate

PROCESSOR = Fitted(per_turn=5e-4, per_row=3e-4, per_column=6e-5, per_pair=1e-8, per_scored=0.0)
"""About what the bundled model takes: time grows with columns."""
SHORT, LONG = even(64, 64, 50, 9), even(512, 256, 150, 26)
BUDGET = 1024
OTHERS = ("b", "c")
CLIENTS = 20
"""Of the greedy owner: each asks again as soon as it is answered, which is more than ten times the others."""
THINKS = 1e-3
"""Seconds between an answer and the next request."""


def p99(
    part: float, trajectories: Sequence[Workload], times: PassTimes, seed: int, greedy: bool
) -> list[float]:
    """Of the others, whose requests come at random at a part of what one at a time can be served."""
    each, long = trajectories
    rate = part / alone(SimulatedRequest(each), times)
    span = 250 * part / rate
    requests: list[SimulatedRequest] = []
    moments: list[float] = []
    for owner in OTHERS:
        drawn = random.Random(f"{owner} {seed}")
        came = accumulate(drawn.expovariate(rate) for _ in range(1000))
        moments += takewhile(lambda at: at < span, came)
        requests += [SimulatedRequest(each, owner=owner)] * (len(moments) - len(requests))
    count = len(requests)
    if greedy:
        moments += [0.0] * CLIENTS
        requests += [SimulatedRequest(long, owner="greedy")] * 10_000
    following = itertools.count(len(moments))

    def after(number: int, now: float) -> tuple[float, int] | None:
        return (now, next(following)) if number >= count and now < span else None

    done = simulate(requests, moments, lambda: EngineScheduler(BUDGET), times, after=after)
    asked = sum(each.number >= count for each in done.answered)
    assert not greedy or asked > CLIENTS, "it is there all the time, and gets on"
    return [
        percentile([a.seconds for a in done.answered if requests[a.number].owner == owner], 99)
        for owner in OTHERS
    ]


H100 = next(each for each in GPUS if each.name == "H100 SXM")
GPU = Roofline(H100, published("llada-8b").shape)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
@pytest.mark.parametrize(
    ("times", "part", "trajectories"),
    [
        (PROCESSOR, 0.15, (SHORT, SHORT)),
        (PROCESSOR, 0.15, (SHORT, LONG)),
        (PROCESSOR, 0.25, (SHORT, SHORT)),
        (GPU, 0.15, (SHORT, SHORT)),
        (GPU, 0.15, (SHORT, LONG)),
    ],
    ids=["processor", "long", "loaded", "gpu", "gpu, long"],
)
def test_a_greedy_owner_at_ten_times_the_load_at_most_doubles_the_others_p99(
    times: PassTimes, part: float, trajectories: Sequence[Workload], seed: int
) -> None:
    without, beside = (p99(part, trajectories, times, seed, greedy) for greedy in (False, True))
    assert all(now <= 2 * before for now, before in zip(beside, without, strict=True))


@pytest.mark.parametrize("times", [PROCESSOR, GPU], ids=["processor", "gpu"])
def test_a_greedy_owner_that_comes_anew_does_not_claim_what_others_had_without_it(
    times: PassTimes,
) -> None:
    """Two others ask one request after the other and take all that there is, until it comes."""
    comes = 100 * alone(SimulatedRequest(SHORT), times)
    requests = [SimulatedRequest(SHORT, owner=owner) for owner in OTHERS]
    moments = [0.0 for _ in OTHERS] + [comes] * CLIENTS
    requests += [SimulatedRequest(SHORT, owner="greedy")] * CLIENTS

    def after(number: int, now: float) -> tuple[float, int] | None:
        requests.append(requests[number])
        return (now + THINKS, len(requests) - 1) if now < 2 * comes else None

    done = simulate(requests, moments, lambda: EngineScheduler(BUDGET), times, after=after)
    for owner in OTHERS:
        own = [each for each in done.answered if requests[each.number].owner == owner]
        before, beside = (
            [each.seconds for each in own if (each.ended > comes) == present]
            for present in (False, True)
        )
        assert min(len(before), len(beside)) > 20
        assert percentile(beside, 99) <= 2 * percentile(before, 99)
