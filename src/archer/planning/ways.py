"""Ways to serve requests on one card: the engine's, with its real scheduler, and those it is held against.

A way is told of requests and makes turns; it knows the time only as it is told, and never what a pass costs.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from archer.bench.traffic import TOGETHER
from archer.costs.workload import Share, Trajectory
from archer.engine.batch import MOST_REUSED
from archer.engine.schedule import Application, Offer, Room, admit, choose

UNBOUNDED = sys.maxsize
"""Columns or bytes that are never reached."""


@dataclass(eq=False)
class Asked:
    """A request under way."""

    number: int
    at: float
    """When it came."""
    trajectory: Trajectory
    bytes: int = 0
    """Of keys and values that it holds while it runs."""
    priority: int = 0
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
    def next(self) -> Share:
        return self.trajectory.shares[self.made]

    def application(self, now: float) -> Application[Asked]:
        left = self.trajectory.left(self.made, self.computed) if self.made else self.estimate
        return Application(
            self, now - self.at, left, self.priority, self.passed_over, bytes=self.bytes
        )

    def offer(self, now: float) -> Offer[Asked]:
        left = self.trajectory.left(self.made, self.computed)
        waited = now - self.at
        return Offer(self, waited, left, self.priority, self.passed_over, self.next.columns)

    def advance(self) -> Share:
        """One update; what it computed."""
        share = self.next
        self.made += 1
        self.computed += share.columns
        return share


@dataclass(frozen=True)
class Turn:
    """What a turn computes, and who is answered when it ends."""

    shares: tuple[Share, ...]
    finished: tuple[Asked, ...]


class Way(ABC):
    """How one card serves: `take` is called when a request comes, `turn` when the card is free."""

    @abstractmethod
    def take(self, asked: Asked) -> None: ...

    @abstractmethod
    def turn(self, now: float) -> Turn | None:
        """The next turn; None where there is nothing to do."""


Order = Callable[[Offer[Any]], Offer[Any]]
"""What a scheduler is shown instead of an offer, to make another order of it."""


def by_response_ratio(offer: Offer[Any]) -> Offer[Any]:
    """The engine's own order."""
    return offer


def oldest_first(offer: Offer[Any]) -> Offer[Any]:
    """With equal work left, the response ratio is the time waited."""
    return replace(offer, left=1.0)


def shortest_first(offer: Offer[Any]) -> Offer[Any]:
    """With equal waiting, the response ratio is one over the work left."""
    return replace(offer, waited=1.0, passed_over=0)


class ByEngine(Way):
    """One `Engine`: its turns from `admit` and `choose`, without cancelling, swapping and time-outs."""

    def __init__(
        self, budget: int, memory: int = UNBOUNDED, order: Order = by_response_ratio
    ) -> None:
        self._budget, self._memory, self._order = budget, memory, order
        self._waiting: list[Asked] = []
        self._running: list[Asked] = []
        self._used = 0

    def take(self, asked: Asked) -> None:
        self._waiting.append(asked)

    def turn(self, now: float) -> Turn | None:
        if self._waiting:
            self._admit(now)
        offers = [asked.offer(now) for asked in self._running]
        if self._order is not by_response_ratio:
            offers = [self._order(offer) for offer in offers]
        chosen = choose(offers, self._budget)
        if not chosen:
            return None
        for asked in self._running:
            asked.passed_over += 1
        shares = []
        for asked in chosen:
            asked.passed_over = 0
            if asked.next.columns:
                shares.append(asked.advance())
            shares.extend(_reused(asked))
        finished = tuple(asked for asked in chosen if asked.done)
        for asked in finished:
            self._running.remove(asked)
            self._used -= asked.bytes
        return Turn(tuple(shares), finished)

    def _admit(self, now: float) -> None:
        free = self._memory - self._used
        if not self._running:
            free = max(free, max(asked.bytes for asked in self._waiting))
        applications = [asked.application(now) for asked in self._waiting]
        admitted = admit(applications, Room(free, {}))
        for asked in self._waiting:
            asked.passed_over += bool(admitted)
        for asked in admitted:
            asked.passed_over = 0
            self._waiting.remove(asked)
            self._running.append(asked)
            self._used += asked.bytes


def _reused(asked: Asked) -> list[Share]:
    """Updates that need no pass, as many as the engine makes in one turn."""
    made: list[Share] = []
    while len(made) < MOST_REUSED and not asked.done and not asked.next.columns:
        made.append(asked.advance())
    return made


class InBatches(Way):
    """Whoever waited longest, with up to `together` of the same length; the batch is answered as a whole."""

    def __init__(self, together: int) -> None:
        self._together = together
        self._waiting: list[Asked] = []
        self._batch: list[Asked] = []

    def take(self, asked: Asked) -> None:
        self._waiting.append(asked)

    def turn(self, now: float) -> Turn | None:
        if not self._batch:
            self._batch = self._next_batch()
        going = [asked for asked in self._batch if not asked.done]
        if not going:
            return None
        shares = tuple(asked.advance() for asked in going)
        if not all(asked.done for asked in self._batch):
            return Turn(shares, ())
        finished, self._batch = tuple(self._batch), []
        return Turn(shares, finished)

    def _next_batch(self) -> list[Asked]:
        if not self._waiting:
            return []
        length = self._waiting[0].trajectory.length
        batch = [asked for asked in self._waiting if asked.trajectory.length == length]
        batch = batch[: self._together]
        self._waiting = [asked for asked in self._waiting if asked not in batch]
        return batch


def ways(budget: int) -> dict[str, Callable[[], Way]]:
    """By name, the engine last but one."""
    return {
        "one at a time": lambda: InBatches(1),
        f"fixed batches of {TOGETHER}": lambda: InBatches(TOGETHER),
        "every row in every pass": lambda: ByEngine(UNBOUNDED),
        f"budget {budget}, oldest first": lambda: ByEngine(budget, order=oldest_first),
        f"budget {budget}, response ratio": lambda: ByEngine(budget),
        f"budget {budget}, shortest first": lambda: ByEngine(budget, order=shortest_first),
    }
