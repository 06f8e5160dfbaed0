"""Requests against cards on a simulated clock: who is answered when.

Two kinds of event: a request comes, a turn ends.  A card makes its next turn as soon as the one before has
ended and somebody is there; whoever comes during a turn waits for the next one.  With several cards a request
goes to the one with the fewest requests, the first of them, and stays there.
"""

from __future__ import annotations

import heapq
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from archer.bench.traffic import PATIENCE, percentile
from archer.costs.pass_times import PassTimes
from archer.costs.workload import Trajectory
from archer.planning.ways import Asked, Way


@dataclass(frozen=True)
class SimulatedRequest:
    """What is asked, before it comes."""

    trajectory: Trajectory
    bytes: int = 0
    small: bool = False


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
class Ran:
    """All that happened; `answered` by number of request."""

    answered: tuple[Answered, ...]
    busy: float
    """Seconds that cards computed, all together."""
    columns: int
    turns: int


class Source(Protocol):
    """Where requests come from."""

    def first(self) -> Iterator[tuple[float, int]]:
        """Times and numbers of the requests that wait for nobody's answer, in order of time."""

    def after(self, number: int, now: float) -> tuple[float, int] | None:
        """The request that is made because this one was answered."""


@dataclass(frozen=True)
class Arrivals:
    """Requests that come at given times, whether or not others are answered."""

    times: Sequence[float]

    def first(self) -> Iterator[tuple[float, int]]:
        yield from sorted((at, number) for number, at in enumerate(self.times))

    def after(self, number: int, now: float) -> tuple[float, int] | None:
        return None


class Clients:
    """So many clients share a list of requests; each takes the next as soon as it is answered."""

    def __init__(self, clients: int, requests: int, seconds: float = float("inf")) -> None:
        """None is made later than `seconds` after the start."""
        self._clients, self._requests, self._seconds = min(clients, requests), requests, seconds
        self._next = self._clients

    def first(self) -> Iterator[tuple[float, int]]:
        self._next = self._clients
        yield from ((0.0, number) for number in range(self._clients))

    def after(self, number: int, now: float) -> tuple[float, int] | None:
        if self._next >= self._requests or now > self._seconds:
            return None
        self._next += 1
        return now, self._next - 1


def simulate(
    requests: Sequence[SimulatedRequest],
    source: Source,
    make: Callable[[], Way],
    times: PassTimes,
    cards: int = 1,
) -> Ran:
    """Serve them all; nothing is ever lost or refused."""
    ways = [make() for _ in range(cards)]
    here = [0] * cards
    free = set(range(cards))
    places: dict[int, int] = {}
    ending: list[tuple[float, int, tuple[Asked, ...]]] = []
    coming = [(at, 0, number) for at, number in source.first()]
    heapq.heapify(coming)
    answered: dict[int, Answered] = {}
    busy, columns, turns = 0.0, 0, 0

    while coming or ending:
        now = min(queue[0][0] for queue in (coming, ending) if queue)
        awake = set()
        while ending and ending[0][0] <= now:
            _, card, finished = heapq.heappop(ending)
            free.add(card)
            awake.add(card)
            for asked in finished:
                answered[asked.number] = Answered(asked.number, asked.at, now)
                here[places.pop(asked.number)] -= 1
                if (follows := source.after(asked.number, now)) is not None:
                    heapq.heappush(coming, (follows[0], 0, follows[1]))
        while coming and coming[0][0] <= now:
            at, _, number = heapq.heappop(coming)
            card = here.index(min(here))
            here[card] += 1
            places[number] = card
            request = requests[number]
            ways[card].take(Asked(number, at, request.trajectory, request.bytes))
            awake.add(card)
        for card in sorted(awake & free):
            turn = ways[card].turn(now)
            if turn is None:
                continue
            seconds = times.seconds(turn.shares)
            busy += seconds
            columns += sum(share.columns for share in turn.shares)
            turns += 1
            free.discard(card)
            heapq.heappush(ending, (now + seconds, card, turn.finished))
    return Ran(tuple(answered[number] for number in sorted(answered)), busy, columns, turns)


def alone(request: SimulatedRequest, times: PassTimes) -> float:
    """Seconds of a request that has a card to itself."""
    counts = Counter(request.trajectory.shares)
    return sum(count * times.seconds((share,)) for share, count in counts.items())


def each_alone(requests: Sequence[SimulatedRequest], times: PassTimes) -> list[float]:
    """The same of every request; equal ones often share a trajectory, which is then timed once."""
    known: dict[int, float] = {}
    for request in requests:
        if id(request.trajectory) not in known:
            known[id(request.trajectory)] = alone(request, times)
    return [known[id(request.trajectory)] for request in requests]


@dataclass(frozen=True)
class Outcome:
    """How well requests were served, in the terms of `archer bench traffic` and `archer bench serve`."""

    requests: int
    mean: float
    p50: float
    p99: float
    p99_small: float | None
    slowdown: float
    """99 of 100 take at most so many times the time they take alone."""
    in_time: float
    """Part of the requests that end within three times the time alone."""
    throughput: float
    """Requests per second, from the first arrival to the last end."""
    goodput: float
    """The same of those in time."""

    @classmethod
    def of(
        cls, answered: Sequence[Answered], alone: Sequence[float], small: Sequence[bool] = ()
    ) -> Outcome:
        """`alone` and `small` by number of request."""
        waits = [each.seconds for each in answered]
        slow = [each.seconds / alone[each.number] for each in answered]
        short = [each.seconds for each in answered if small and small[each.number]]
        whole = max(each.ended for each in answered) - min(each.at for each in answered)
        good = sum(ratio <= PATIENCE for ratio in slow)
        return cls(
            requests=len(waits),
            mean=statistics.mean(waits),
            p50=percentile(waits, 50),
            p99=percentile(waits, 99),
            p99_small=percentile(short, 99) if short else None,
            slowdown=percentile(slow, 99),
            in_time=good / len(waits),
            throughput=len(waits) / whole,
            goodput=good / whole,
        )
