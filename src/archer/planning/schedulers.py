"""Who computes next on one GPU: the engine's own schedule, without the passes.

It takes requests and makes turns.  It is given the time, and never knows what a pass costs.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from archer.costs.workload import PassShare, Workload
from archer.engine.batch import MOST_REUSED
from archer.engine.schedule import Application, Offer, Room, admit, choose

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
    made: int = 0
    """Updates."""
    computed: int = 0
    """Columns."""
    passed_over: int = 0
    estimate: float = field(init=False)
    """Columns it will take, before anything is known; as in `Job.left`."""

    def __post_init__(self) -> None:
        trajectory = self.trajectory
        self.estimate = float((trajectory.prompt + trajectory.length) * trajectory.length)

    @property
    def done(self) -> bool:
        return self.made == self.trajectory.updates

    @property
    def next(self) -> PassShare:
        return self.trajectory.shares[self.made]

    def application(self, now: float) -> Application[ActiveRequest]:
        left = self.trajectory.left(self.made, self.computed) if self.made else self.estimate
        return Application(self, now - self.at, left, 0, self.passed_over, bytes=self.bytes)

    def offer(self, now: float) -> Offer[ActiveRequest]:
        left = self.trajectory.left(self.made, self.computed)
        return Offer(self, now - self.at, left, 0, self.passed_over, self.next.columns)

    def advance(self) -> PassShare:
        """One update; what it computed."""
        share = self.next
        self.made += 1
        self.computed += share.columns
        return share


@dataclass(frozen=True)
class SimulatedTurn:
    """What a turn computes, and who is answered when it ends."""

    shares: tuple[PassShare, ...]
    finished: tuple[ActiveRequest, ...]


class EngineScheduler:
    """One `Engine`: its turns from `admit` and `choose`, without cancelling, swapping and time-outs."""

    def __init__(self, budget: int, memory: int = UNBOUNDED) -> None:
        self._budget, self._memory = budget, memory
        self._waiting: list[ActiveRequest] = []
        self._running: list[ActiveRequest] = []
        self._used = 0

    def take(self, request: ActiveRequest) -> None:
        """A request comes."""
        self._waiting.append(request)

    def turn(self, now: float) -> SimulatedTurn | None:
        """The next turn of a GPU that is free; None where there is nothing to do."""
        if self._waiting:
            self._admit(now)
        chosen = choose([self.offer(request, now) for request in self._running], self._budget)
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
        return SimulatedTurn(tuple(shares), finished)

    def offer(self, request: ActiveRequest, now: float) -> Offer[ActiveRequest]:
        """What the schedule is shown of a request; tests override it to try other orders."""
        return request.offer(now)

    def _admit(self, now: float) -> None:
        free = self._memory - self._used
        if not self._running:
            free = max(free, max(request.bytes for request in self._waiting))
        applications = [request.application(now) for request in self._waiting]
        admitted = admit(applications, Room(free, {}))
        for request in self._waiting:
            request.passed_over += bool(admitted)
        for request in admitted:
            request.passed_over = 0
            self._waiting.remove(request)
            self._running.append(request)
            self._used += request.bytes


def _reused(request: ActiveRequest) -> list[PassShare]:
    """Updates that need no pass, as many as the engine makes in one turn."""
    made: list[PassShare] = []
    while len(made) < MOST_REUSED and not request.done and not request.next.columns:
        made.append(request.advance())
    return made
