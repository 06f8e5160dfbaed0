"""How many cards a demand needs: the fewest with which requests end in time, by card, radius and budget."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from archer.costs.pass_times import PassTimes
from archer.engine.footprint import SHARE
from archer.errors import BadRequest
from archer.planning.demand import Demand, small
from archer.planning.pace import Pace
from archer.planning.simulation import (
    Answered,
    Arrivals,
    Outcome,
    SimulatedRequest,
    each_alone,
    simulate,
)
from archer.planning.ways import UNBOUNDED, ByEngine, Way, ways

LEADS = (12.0, 48.0)
"""Before the requests that count others come, for so many times the mean time alone.

With too few cards a queue grows, but slowly: an answer has to stand when the stream has run four times
as long.
"""
AFTER = 3.0
"""The same after them: until the last of them has ended in time, or has not."""
CROWD = 100
"""Requests that wait from the start where a card's most is measured."""
MOST_CARDS = 1 << 14
MOST_WORK = 1 << 24
"""Updates that are simulated at a time, of all requests together."""

Coming = Callable[[float, float], tuple[Demand, range]]
"""Requests and which of them count, by the seconds of others before and after them."""


@dataclass(frozen=True)
class Server:
    """A card as the plan sees it: how long its passes take, and what it can hold."""

    name: str
    times: PassTimes
    bytes_per_column: int = 0
    """Of keys and values."""
    memory: int = UNBOUNDED
    """Bytes that requests may hold together."""

    @classmethod
    def holding(
        cls, name: str, times: PassTimes, bytes_per_column: int, memory: float, weights: float
    ) -> Server:
        """With what the engine would leave to requests by default, beside the weights."""
        if weights >= memory:
            raise BadRequest(
                f"The weights take {weights / 1e9:.0f} GB and {name} has {memory / 1e9:.0f} GB. "
                "Plan for a larger GPU, or for a smaller shape."
            )
        return cls(name, times, bytes_per_column, int(SHARE * (memory - weights)))


@dataclass(frozen=True)
class Target:
    """What is good enough."""

    in_time: float = 0.95
    """Part of the requests that end within three times their time alone."""
    p99: float | None = None
    """Seconds within which 99 of 100 end."""

    def __post_init__(self) -> None:
        if not 0 < self.in_time <= 1:
            raise BadRequest(
                f"in_time takes a fraction of the requests, above 0 and at most 1, not {self.in_time}."
            )
        if self.p99 is not None and not self.p99 > 0:
            raise BadRequest(f"p99 takes seconds above 0, not {self.p99}.")

    def reached(self, outcome: Outcome) -> bool:
        return outcome.in_time >= self.in_time and (self.p99 is None or outcome.p99 <= self.p99)


@dataclass(frozen=True)
class Setting:
    """One way to run the engine on one kind of card."""

    server: Server
    pace: Pace
    budget: int
    radius: float | None = None
    extra: int = 0
    """Columns of a cached pass beside the response."""

    def way(self) -> Way:
        return ByEngine(self.budget, self.server.memory)


@dataclass(frozen=True)
class Point:
    """So many cards, simulated."""

    cards: int
    outcome: Outcome
    busy: float
    """Part of the time that cards compute."""
    columns: float
    """Of a pass, on average."""


@dataclass(frozen=True)
class Found:
    """The fewest cards with which a setting reaches the target, and what else was tried."""

    card: str
    radius: float | None
    budget: int
    alone: float
    """Mean seconds of a request that has a card to itself."""
    most: float
    """Requests per second of one card on which somebody always waits; no plan asks more of it."""
    best: Point
    tried: tuple[Point, ...] = field(repr=False)

    def as_dict(self) -> dict[str, Any]:
        return {
            "card": self.card,
            "radius": "inf" if self.radius == math.inf else self.radius,
            "budget": self.budget,
            "alone": self.alone,
            "most": self.most,
            **_point(self.best),
            "tried": [_point(point) for point in self.tried],
        }


def _point(point: Point) -> dict[str, Any]:
    return {"cards": point.cards, "busy": point.busy, "columns": point.columns} | asdict(
        point.outcome
    )


def plan(demand: Coming, settings: Sequence[Setting], target: Target) -> list[Found]:
    """One for each setting."""
    found: list[Found] = []
    for setting in settings:
        near = [each.best.cards for each in found if each.card == setting.server.name]
        found.append(_needed(demand, setting, target, near[-1] if near else None))
    return found


def best(found: Sequence[Found]) -> list[Found]:
    """Of every card the setting with the fewest cards, then with the least p99."""
    by_card: dict[str, Found] = {}
    for each in sorted(found, key=lambda each: (each.best.cards, each.best.outcome.p99)):
        by_card.setdefault(each.card, each)
    return [by_card[name] for name in dict.fromkeys(each.card for each in found)]


def _needed(demand: Coming, setting: Setting, target: Target, near: int | None) -> Found:
    server = setting.server
    first, _ = demand(0.0, 0.0)
    requests = _requests(first, setting)
    own = each_alone(requests, server.times)
    mean = statistics.mean(own)
    if target.p99 is not None and sorted(own)[math.ceil(0.99 * len(own)) - 1] > target.p99:
        raise BadRequest(
            f"On {server.name} a request takes {mean:.1f} s on average even alone, so 99 of 100 cannot "
            f"end within {target.p99:g} s. Ask for less, or for a faster GPU."
        )
    most = most_served(requests, setting)
    least = 1 if first.rate is None else math.ceil(first.rate / most)
    if least > MOST_CARDS:
        raise BadRequest(
            f"On {server.name} one card serves at most {most:.3g} requests a second, so {first.rate:g} need "
            f"{least} cards, and plans end at {MOST_CARDS}. Ask for less."
        )
    cards, memo = max(least, near or _guess(first, mean)), dict[int, Point]()
    for lead in _leads(first, requests, mean):
        stream = _Stream.of(demand(lead, AFTER * mean), setting)
        memo = {tried: point for tried, point in memo.items() if not target.reached(point.outcome)}

        def reached(cards: int, stream: _Stream = stream, memo: dict[int, Point] = memo) -> bool:
            if cards not in memo:
                memo[cards] = stream.served_by(cards)
            return target.reached(memo[cards].outcome)

        if lead > LEADS[0] * mean and reached(cards):
            break
        cards = _fewest(reached, cards, least)
    tried = tuple(memo[cards] for cards in sorted(memo))
    return Found(server.name, setting.radius, setting.budget, mean, most, memo[cards], tried)


def most_served(requests: Sequence[SimulatedRequest], setting: Setting) -> float:
    """Requests per second of one card on which somebody always waits.

    Of some of the requests, or of all of them again and again; if those are larger or smaller than all on
    average, that is made up for.
    """
    server = setting.server
    some = [
        requests[number * max(CROWD, len(requests)) // CROWD % len(requests)]
        for number in range(CROWD)
    ]
    ran = simulate(some, Arrivals((0.0,) * CROWD), setting.way, server.times)
    unlike = statistics.mean(each_alone(some, server.times)) / statistics.mean(
        each_alone(requests, server.times)
    )
    return unlike * len(some) / max(each.ended for each in ran.answered)


def _guess(demand: Demand, mean: float) -> int:
    """Cards to begin with: as if each had one request at a time."""
    if demand.rate is not None:
        return math.ceil(min(demand.rate * mean, MOST_CARDS))
    count, span = len(demand.times), demand.times[-1] - demand.times[0]
    together = count * mean / span if span > 0 else count
    return math.ceil(min(together, count, MOST_CARDS))


def _leads(demand: Demand, requests: Sequence[SimulatedRequest], mean: float) -> list[float]:
    """Seconds of the stream before the requests that count, as long as they can be simulated."""
    if demand.rate is None:
        return [0.0]
    updates = statistics.mean(request.trajectory.updates for request in requests)
    longest = MOST_WORK / 2 / updates / demand.rate
    return [LEADS[0] * mean, *(lead * mean for lead in LEADS[1:] if lead * mean <= longest)]


@dataclass(frozen=True)
class _Stream:
    """Requests as they come to any number of cards."""

    setting: Setting
    demand: Demand
    counted: range
    requests: Sequence[SimulatedRequest]
    own: Sequence[float]
    """Seconds alone."""

    @classmethod
    def of(cls, coming: tuple[Demand, range], setting: Setting) -> _Stream:
        demand, counted = coming
        requests = _requests(demand, setting)
        return cls(setting, demand, counted, requests, each_alone(requests, setting.server.times))

    def served_by(self, cards: int) -> Point:
        """Figures of the requests that count; goodput of a stream as if it had no end."""
        way, times = self.setting.way, self.setting.server.times
        ran = simulate(self.requests, Arrivals(self.demand.times), way, times, cards)
        answered: list[Answered] = [each for each in ran.answered if each.number in self.counted]
        outcome, rate = Outcome.of(answered, self.own), self.demand.rate
        if rate is not None:
            outcome = replace(outcome, throughput=rate, goodput=rate * outcome.in_time)
        whole = max(each.ended for each in ran.answered) - self.demand.times[0]
        busy = min(1.0, ran.busy / (cards * whole)) if whole else 1.0
        return Point(cards, outcome, busy, ran.columns / max(1, ran.turns))


def _requests(demand: Demand, setting: Setting) -> list[SimulatedRequest]:
    server, made, updates = setting.server, list[SimulatedRequest](), 0
    for wanted in demand.wanted:
        held = server.bytes_per_column * (wanted.prompt + wanted.length)
        if held > server.memory:
            raise BadRequest(
                f"A request of {wanted.prompt} + {wanted.length} tokens holds {held / 1e9:.1f} GB, and on "
                f"{server.name} requests may hold {server.memory / 1e9:.1f} GB in all."
            )
        made.append(SimulatedRequest(wanted.trajectory(setting.pace, setting.extra), held))
        updates += made[-1].trajectory.updates
        if updates > MOST_WORK:
            raise BadRequest(
                f"These requests make more than {MOST_WORK} updates, and more would take hours to simulate. "
                "Ask for fewer requests, or for shorter ones."
            )
    return made


def _fewest(reached: Callable[[int], bool], guess: int, least: int = 1) -> int:
    """The least number of cards that is enough, from `least` on, if more are never worse."""
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
            if low > MOST_CARDS:
                raise BadRequest(f"Not even {low} devices reach the target. Ask for less.")
        high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class Served:
    """One way to serve on one card."""

    card: str
    way: str
    outcome: Outcome

    def as_dict(self) -> dict[str, Any]:
        return {"card": self.card, "way": self.way} | asdict(self.outcome)


def side_by_side(
    demand: Callable[[float], Demand], settings: Sequence[Setting], load: float
) -> list[Served]:
    """Every way to serve, on one card, at a part of what one at a time can serve; `demand` takes a rate."""
    found = []
    for setting in settings:
        times = setting.server.times
        requests = _requests(demand(1.0), setting)
        own = each_alone(requests, times)
        coming = demand(load / statistics.mean(own))
        short = small(coming.wanted)
        for name, make in ways(setting.budget).items():
            ran = simulate(requests, Arrivals(coming.times), make, times)
            found.append(Served(setting.server.name, name, Outcome.of(ran.answered, own, short)))
    return found
