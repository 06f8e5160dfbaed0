"""The fewest GPUs with which requests end in time, by GPU, radius and budget."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from archer.costs.pass_times import PassTimes
from archer.costs.service import ServiceOutcome
from archer.engine.footprint import SHARE
from archer.errors import BadRequest
from archer.planning.demand import Demand
from archer.planning.request import Target
from archer.planning.simulation import (
    UNBOUNDED,
    Answered,
    EngineScheduler,
    SimulatedRequest,
    each_alone,
    outcome,
    simulate,
)
from archer.planning.update_rates import UpdateRate

LEADS = (12.0, 48.0)
"""Warm-up traffic before the requests that count, in multiples of the mean time a request takes alone.

With too few GPUs a queue grows, but slowly: an answer has to stand when the stream has run four times
as long.
"""
AFTER = 3.0
"""The same after them: until the last of them has ended in time, or has not."""
CROWD = 100
"""Requests that wait from the start where a GPU's most is measured."""
MOST_GPUS = 1 << 14
MOST_WORK = 1 << 24
"""Updates that are simulated at a time, of all requests together."""

Coming = Callable[[float, float], tuple[Demand, range]]
"""Requests and which of them count, by the seconds of others before and after them."""


@dataclass(frozen=True)
class ServingGpu:
    """A GPU as the plan sees it: how long its passes take, and what it can hold."""

    name: str
    times: PassTimes
    bytes_per_column: int = 0
    """Of keys and values."""
    memory: int = UNBOUNDED
    """Bytes that requests may hold together."""

    @classmethod
    def holding(
        cls, name: str, times: PassTimes, bytes_per_column: int, memory: float, weights: float
    ) -> ServingGpu:
        """With what the engine would leave to requests by default, beside the weights."""
        if weights >= memory:
            raise BadRequest(
                f"The weights take {weights / 1e9:.0f} GB and {name} has {memory / 1e9:.0f} GB. "
                "Plan for a larger GPU, or for a smaller shape."
            )
        return cls(name, times, bytes_per_column, int(SHARE * (memory - weights)))


@dataclass(frozen=True)
class PlanSetting:
    """One way to run the engine on one kind of GPU."""

    gpu: ServingGpu
    rate: UpdateRate
    budget: int
    radius: float | None = None
    extra: int = 0
    """Columns of a cached pass beside the response."""

    def scheduler(self) -> EngineScheduler:
        return EngineScheduler(self.budget, self.gpu.memory)


@dataclass(frozen=True)
class GpuTrial:
    """N GPUs, simulated."""

    gpus: int
    outcome: ServiceOutcome
    busy: float
    """Fraction of the time that GPUs compute."""
    columns: float
    """Of a pass, on average."""


@dataclass(frozen=True)
class GpuPlan:
    """The fewest GPUs with which a setting reaches the target, and what else was tried."""

    gpu: str
    radius: float | None
    budget: int
    alone: float
    """Mean seconds of a request that has a GPU to itself."""
    most: float
    """Requests per second of one GPU on which somebody always waits; no plan asks more of it."""
    best: GpuTrial
    tried: tuple[GpuTrial, ...] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            "gpu": self.gpu,
            "radius": "inf" if self.radius == math.inf else self.radius,
            "budget": self.budget,
            "alone": self.alone,
            "most": self.most,
            **_figures(self.best),
            "tried": [_figures(point) for point in self.tried],
        }


def _figures(trial: GpuTrial) -> dict[str, Any]:
    return {"gpus": trial.gpus, "busy": trial.busy, "columns": trial.columns} | asdict(
        trial.outcome
    )


def reached_by(target: Target, outcome: ServiceOutcome) -> bool:
    return outcome.in_time >= target.in_time and (target.p99 is None or outcome.p99 <= target.p99)


def search(demand: Coming, settings: Sequence[PlanSetting], target: Target) -> list[GpuPlan]:
    """One for each setting."""
    plans: list[GpuPlan] = []
    for setting in settings:
        near = [each.best.gpus for each in plans if each.gpu == setting.gpu.name]
        plans.append(_needed(demand, setting, target, near[-1] if near else None))
    return plans


def best(plans: Sequence[GpuPlan]) -> list[GpuPlan]:
    """Of every GPU the setting with the fewest GPUs, then with the least p99."""
    by_gpu: dict[str, GpuPlan] = {}
    for each in sorted(plans, key=lambda each: (each.best.gpus, each.best.outcome.p99)):
        by_gpu.setdefault(each.gpu, each)
    return [by_gpu[name] for name in dict.fromkeys(each.gpu for each in plans)]


def _needed(demand: Coming, setting: PlanSetting, target: Target, near: int | None) -> GpuPlan:
    gpu = setting.gpu
    first, _ = demand(0.0, 0.0)
    requests = _requests(first, setting)
    own = each_alone(requests, gpu.times)
    mean = statistics.mean(own)
    if target.p99 is not None and sorted(own)[math.ceil(0.99 * len(own)) - 1] > target.p99:
        raise BadRequest(
            f"On {gpu.name} a request takes {mean:.1f} s on average even alone, so 99 of 100 cannot "
            f"end within {target.p99:g} s. Ask for less, or for a faster GPU."
        )
    most = most_served(requests, setting)
    least = 1 if first.rate is None else math.ceil(first.rate / most)
    if least > MOST_GPUS:
        raise BadRequest(
            f"On {gpu.name} one GPU serves at most {most:.3g} requests a second, so {first.rate:g} need "
            f"{least} GPUs, and plans end at {MOST_GPUS}. Ask for less."
        )
    gpus, memo = max(least, near or _guess(first, mean)), dict[int, GpuTrial]()
    for lead in _leads(first, requests, mean):
        stream = _Stream.of(demand(lead, AFTER * mean), setting)
        memo = {
            tried: point for tried, point in memo.items() if not reached_by(target, point.outcome)
        }

        def reached(gpus: int, stream: _Stream = stream, memo: dict[int, GpuTrial] = memo) -> bool:
            if gpus not in memo:
                memo[gpus] = stream.served_by(gpus)
            return reached_by(target, memo[gpus].outcome)

        if lead > LEADS[0] * mean and reached(gpus):
            break
        gpus = _fewest(reached, gpus, least)
    tried = tuple(memo[gpus] for gpus in sorted(memo))
    return GpuPlan(gpu.name, setting.radius, setting.budget, mean, most, memo[gpus], tried)


def most_served(requests: Sequence[SimulatedRequest], setting: PlanSetting) -> float:
    """Requests per second of one GPU on which somebody always waits, corrected for the crowd's sizes."""
    gpu = setting.gpu
    some = [
        requests[number * max(CROWD, len(requests)) // CROWD % len(requests)]
        for number in range(CROWD)
    ]
    ran = simulate(some, (0.0,) * CROWD, setting.scheduler, gpu.times)
    unlike = statistics.mean(each_alone(some, gpu.times)) / statistics.mean(
        each_alone(requests, gpu.times)
    )
    return unlike * len(some) / max(each.ended for each in ran.answered)


def _guess(demand: Demand, mean: float) -> int:
    """GPUs to begin with: as if each had one request at a time."""
    if demand.rate is not None:
        return math.ceil(min(demand.rate * mean, MOST_GPUS))
    count, span = len(demand.times), demand.times[-1] - demand.times[0]
    together = count * mean / span if span > 0 else count
    return math.ceil(min(together, count, MOST_GPUS))


def _leads(demand: Demand, requests: Sequence[SimulatedRequest], mean: float) -> list[float]:
    """Seconds of the stream before the requests that count, as long as they can be simulated."""
    if demand.rate is None:
        return [0.0]
    updates = statistics.mean(request.trajectory.updates for request in requests)
    longest = MOST_WORK / 2 / updates / demand.rate
    return [LEADS[0] * mean, *(lead * mean for lead in LEADS[1:] if lead * mean <= longest)]


@dataclass(frozen=True)
class _Stream:
    """Requests as they come to any number of GPUs."""

    setting: PlanSetting
    demand: Demand
    counted: range
    requests: Sequence[SimulatedRequest]
    own: Sequence[float]
    """Seconds alone."""

    @classmethod
    def of(cls, coming: tuple[Demand, range], setting: PlanSetting) -> _Stream:
        demand, counted = coming
        requests = _requests(demand, setting)
        return cls(setting, demand, counted, requests, each_alone(requests, setting.gpu.times))

    def served_by(self, gpus: int) -> GpuTrial:
        """Figures of the requests that count; goodput of a stream as if it had no end."""
        make, times = self.setting.scheduler, self.setting.gpu.times
        ran = simulate(self.requests, self.demand.times, make, times, gpus)
        answered: list[Answered] = [each for each in ran.answered if each.number in self.counted]
        service, rate = outcome(answered, self.own), self.demand.rate
        if rate is not None:
            service = replace(service, throughput=rate, goodput=rate * service.in_time)
        whole = max(each.ended for each in ran.answered) - self.demand.times[0]
        busy = min(1.0, ran.busy / (gpus * whole)) if whole else 1.0
        return GpuTrial(gpus, service, busy, ran.columns / max(1, ran.turns))


def _requests(demand: Demand, setting: PlanSetting) -> list[SimulatedRequest]:
    gpu, requests, updates = setting.gpu, list[SimulatedRequest](), 0
    for size in demand.sizes:
        held = gpu.bytes_per_column * (size.prompt + size.length)
        if held > gpu.memory:
            raise BadRequest(
                f"A request of {size.prompt} + {size.length} tokens holds {held / 1e9:.1f} GB, and on "
                f"{gpu.name} requests may hold {gpu.memory / 1e9:.1f} GB in all."
            )
        requests.append(SimulatedRequest(size.trajectory(setting.rate, setting.extra), held))
        updates += requests[-1].trajectory.updates
        if updates > MOST_WORK:
            raise BadRequest(
                f"These requests make more than {MOST_WORK} updates, and more would take hours to simulate. "
                "Ask for fewer requests, or for shorter ones."
            )
    return requests


def _fewest(reached: Callable[[int], bool], guess: int, least: int = 1) -> int:
    """The least number of GPUs that is enough, from `least` on, if more are never worse."""
    step = max(1, guess // 10)
    if reached(guess):
        high = guess
        while high > least and reached(max(least, high - step)):
            high = max(least, high - step)
        low = max(least - 1, high - step)
    else:
        low = guess
        while not reached(low + step):
            low += step
            step *= 2
            if low > MOST_GPUS:
                raise BadRequest(f"Not even {low} GPUs reach the target. Ask for less.")
        high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
