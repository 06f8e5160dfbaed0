"""Requests against GPUs on a simulated clock: who is answered when.

Two kinds of event: a request comes, a turn ends.  A GPU makes its next turn as soon as the one before has
ended and somebody is there; a request that comes during a turn waits for the next one.  With several GPUs a
request goes to the one with the fewest requests, the first of them, and stays there.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from archer.costs.pass_times import PassTimes
from archer.costs.service import ServiceOutcome, figures
from archer.costs.workload import Workload
from archer.planning.schedulers import ActiveRequest, EngineScheduler


@dataclass(frozen=True)
class SimulatedRequest:
    """A request before it arrives."""

    trajectory: Workload
    bytes: int = 0


@dataclass(frozen=True)
class Answered:
    """One request: when it came, when it ended."""

    number: int
    at: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.at


@dataclass(frozen=True)
class Simulated:
    """All that happened; `answered` by number of request."""

    answered: tuple[Answered, ...]
    busy: float
    """Seconds that GPUs computed, all together."""
    columns: int
    turns: int


Following = Callable[[int, float], tuple[float, int] | None]
"""Given who was answered and when: the time and number of the request that is made because of it."""


def simulate(
    requests: Sequence[SimulatedRequest],
    arrivals: Sequence[float],
    make: Callable[[], EngineScheduler],
    times: PassTimes,
    gpus: int = 1,
    after: Following = lambda number, now: None,
) -> Simulated:
    """Serve the requests that come at these times, and those that follow; nothing is lost or refused."""
    schedulers = [make() for _ in range(gpus)]
    here = [0] * gpus
    free = set(range(gpus))
    places: dict[int, int] = {}
    ending: list[tuple[float, int, tuple[ActiveRequest, ...]]] = []
    coming = [(at, 0, number) for number, at in enumerate(arrivals)]
    heapq.heapify(coming)
    answered: dict[int, Answered] = {}
    busy, columns, turns = 0.0, 0, 0

    while coming or ending:
        now = min(queue[0][0] for queue in (coming, ending) if queue)
        awake = set()
        while ending and ending[0][0] <= now:
            _, gpu, finished = heapq.heappop(ending)
            free.add(gpu)
            awake.add(gpu)
            for done in finished:
                answered[done.number] = Answered(done.number, done.at, now)
                here[places.pop(done.number)] -= 1
                if (follows := after(done.number, now)) is not None:
                    heapq.heappush(coming, (follows[0], 0, follows[1]))
        while coming and coming[0][0] <= now:
            at, _, number = heapq.heappop(coming)
            gpu = here.index(min(here))
            here[gpu] += 1
            places[number] = gpu
            request = requests[number]
            schedulers[gpu].take(ActiveRequest(number, at, request.trajectory, request.bytes))
            awake.add(gpu)
        for gpu in sorted(awake & free):
            turn = schedulers[gpu].turn(now)
            if turn is None:
                continue
            seconds = times.seconds(turn.shares)
            busy += seconds
            columns += sum(share.columns for share in turn.shares)
            turns += 1
            free.discard(gpu)
            heapq.heappush(ending, (now + seconds, gpu, turn.finished))
    return Simulated(tuple(answered[number] for number in sorted(answered)), busy, columns, turns)


def alone(request: SimulatedRequest, times: PassTimes) -> float:
    """Seconds of a request that has a GPU to itself."""
    counts = Counter(request.trajectory.shares)
    return sum(count * times.seconds((share,)) for share, count in counts.items())


def each_alone(requests: Sequence[SimulatedRequest], times: PassTimes) -> list[float]:
    """The same of every request; equal ones often share a trajectory, which is then timed once."""
    known: dict[int, float] = {}
    for request in requests:
        if id(request.trajectory) not in known:
            known[id(request.trajectory)] = alone(request, times)
    return [known[id(request.trajectory)] for request in requests]


def outcome(answered: Sequence[Answered], alone: Sequence[float]) -> ServiceOutcome:
    """How well requests were served; `alone` by number of request."""
    span = max(each.ended for each in answered) - min(each.at for each in answered)
    own = [alone[each.number] for each in answered]
    return ServiceOutcome(**figures([each.seconds for each in answered], own, span))
