"""Requests against GPUs on a simulated clock: the engine's own schedule without the passes, and who is
answered when.

Two kinds of event: a request comes, a turn ends.  A GPU makes its next turn as soon as the one before has
ended and somebody is there; a request that comes during a turn waits for the next one.  With several GPUs a
request goes to the one with the fewest requests, the first of them, and stays there.
"""

from __future__ import annotations

import heapq
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from archer.costs.pass_times import PassTimes
from archer.costs.service import ServiceOutcome, figures
from archer.costs.workload import PassShare, Workload
from archer.engine.batch import MOST_REUSED
from archer.engine.schedule import (
    Application,
    Offer,
    Room,
    Usage,
    admit,
    choose,
    columns_by_owner,
)

UNBOUNDED = sys.maxsize
"""Columns or bytes that are never reached."""


@dataclass(eq=False)
class ActiveRequest:
    """A request under way."""

    number: int
    at: float
    """When it came."""
    trajectory: Workload
    bytes: int = 0
    """Of keys and values that it holds while it runs."""
    owner: Hashable = None
    updates: int = 0
    """Updates so far."""
    computed: int = 0
    """Columns so far."""
    passed_over: int = 0
    estimate: float = field(init=False)
    """Columns it will take, before anything is known; as in `Job.left`."""

    def __post_init__(self) -> None:
        trajectory = self.trajectory
        self.estimate = float((trajectory.prompt + trajectory.length) * trajectory.length)

    @property
    def done(self) -> bool:
        return self.updates == self.trajectory.updates

    @property
    def next(self) -> PassShare:
        return self.trajectory.shares[self.updates]

    def application(self, now: float) -> Application[ActiveRequest]:
        left = self.trajectory.left(self.updates, self.computed) if self.updates else self.estimate
        return Application(
            self, now - self.at, left, 0, self.passed_over, bytes=self.bytes, owner=self.owner
        )

    def offer(self, now: float) -> Offer[ActiveRequest]:
        left = self.trajectory.left(self.updates, self.computed)
        columns = self.next.columns
        return Offer(self, now - self.at, left, 0, self.passed_over, columns, owner=self.owner)

    def advance(self) -> PassShare:
        """One update; what it computed."""
        share = self.next
        self.updates += 1
        self.computed += share.columns
        return share


@dataclass(frozen=True)
class SimulatedTurn:
    """What a turn computes, and who is answered when it ends."""

    shares: tuple[PassShare, ...]
    finished: tuple[ActiveRequest, ...]
    columns: Mapping[Hashable, int] = field(default_factory=dict)
    """On behalf of each owner."""


class EngineScheduler:
    """One `Engine`: its turns from `admit` and `choose`, without cancelling, swapping and time-outs."""

    def __init__(self, budget: int, memory: int = UNBOUNDED) -> None:
        self._budget, self._memory = budget, memory
        self._waiting: list[ActiveRequest] = []
        self._running: list[ActiveRequest] = []
        self._used = 0
        self._usage = Usage()

    def take(self, request: ActiveRequest) -> None:
        """A request comes."""
        self._waiting.append(request)

    def turn(self, now: float) -> SimulatedTurn | None:
        """The next turn of a GPU that is free; None where there is nothing to do."""
        if self._waiting:
            self._admit(now)
        offers = [self.offer(request, now) for request in self._running]
        chosen = choose(offers, self._budget, self._usage.now(now))
        if not chosen:
            return None
        for request in self._running:
            request.passed_over += 1
        shares = []
        for request in chosen:
            request.passed_over = 0
            if request.next.columns:
                shares.append(request.advance())
            shares.extend(_reused(request))
        finished = tuple(request for request in chosen if request.done)
        for request in finished:
            self._running.remove(request)
            self._used -= request.bytes
        return SimulatedTurn(tuple(shares), finished, columns_by_owner(offers, chosen))

    def took(self, turn: SimulatedTurn, seconds: float) -> None:
        """The turn that was made last takes so long."""
        self._usage.add(turn.columns, seconds)

    def offer(self, request: ActiveRequest, now: float) -> Offer[ActiveRequest]:
        """What the schedule is shown of a request; tests override it to try other orders."""
        return request.offer(now)

    def _admit(self, now: float) -> None:
        free = self._memory - self._used
        if not self._running:
            free = max(free, max(request.bytes for request in self._waiting))
        applications = [request.application(now) for request in self._waiting]
        held: Counter[Hashable] = Counter()
        for request in self._running:
            held[request.owner] += request.bytes
        admitted = admit(applications, Room(free, {}, held=held))
        for request in self._waiting:
            request.passed_over += bool(admitted)
        for request in admitted:
            request.passed_over = 0
            self._waiting.remove(request)
            self._running.append(request)
            self._used += request.bytes


def _reused(request: ActiveRequest) -> list[PassShare]:
    """Updates that need no pass, as many as the engine makes in one turn."""
    shares: list[PassShare] = []
    while len(shares) < MOST_REUSED and not request.done and not request.next.columns:
        shares.append(request.advance())
    return shares


@dataclass(frozen=True)
class SimulatedRequest:
    """A request before it arrives."""

    trajectory: Workload
    bytes: int = 0
    owner: Hashable = None


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
            schedulers[gpu].take(
                ActiveRequest(number, at, request.trajectory, request.bytes, owner=request.owner)
            )
            awake.add(gpu)
        for gpu in sorted(awake & free):
            turn = schedulers[gpu].turn(now)
            if turn is None:
                continue
            seconds = times.seconds(turn.shares)
            schedulers[gpu].took(turn, seconds)
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
