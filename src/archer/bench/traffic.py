"""Requests of unequal size and method that arrive one by one: who waits how long, by the way they are served.

One at a time, in fixed batches of equals, and by the engine.  All do the real work on one thread, and are
timed by a clock that runs only while this process computes and jumps to the next arrival when there is
nothing to do: what else the machine does is not measured.
"""

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from time import process_time

from archer.bench.facts import Result
from archer.costs.service import ServiceOutcome, figures, percentile
from archer.engine.engine import Engine
from archer.engine.generate import Stream
from archer.engine.handle import Handle
from archer.methods.build import build
from archer.model import Model
from archer.pages.tables import Field, Table, table_of
from archer.request.request import Form, Request

TOGETHER = 8
"""Rows of a fixed batch at the most."""
ALL_AT_ONCE = "all at once"
SMALL_PROMPT, SMALL_LENGTH = 160, 32
"""A request is small when it is no larger than this."""


@dataclass(frozen=True)
class Arrival:
    """A request and when it comes, in seconds from the start."""

    request: Request
    at: float

    @property
    def small(self) -> bool:
        (prompt,) = self.request.prompts
        return prompt.prompt_tokens <= SMALL_PROMPT and self.request.method.length <= SMALL_LENGTH

    @property
    def kind(self) -> tuple[str, int]:
        """What a fixed batch has in common."""
        return self.request.method.name, self.request.method.length


@dataclass(frozen=True)
class Load:
    """What arrives: ranges to draw from, and how fast."""

    requests: int = 48
    prompts: tuple[int, int] = (40, 400)
    lengths: tuple[int, ...] = (32, 64, 96, 128)
    methods: tuple[str, ...] = ("saber", "archer", "llada-confidence")
    seed: int = 0

    def draw(self, model: Model) -> list[Request]:
        draw = random.Random(self.seed)
        plain = plain_ids(model)
        requests = []
        for _ in range(self.requests):
            prompt = tuple(draw.choices(plain, k=draw.randint(*self.prompts)))
            method = build(draw.choice(self.methods), {"length": draw.choice(self.lengths)})
            requests.append(Request(method, (Form(prompt),), 0, model.language))
        return requests

    def arrivals(self, requests: Sequence[Request], rate: float) -> list[Arrival]:
        """Exponential gaps at `rate` requests per second; all at once at an infinite one."""
        draw = random.Random(self.seed + 1)
        at, drawn = 0.0, []
        for request in requests:
            at += draw.expovariate(rate) if rate < float("inf") else 0.0
            drawn.append(Arrival(request, at))
        return drawn


def plain_ids(model: Model) -> list[int]:
    """Ids that neither mask nor end anything."""
    return sorted(set(range(model.folder.shape.vocabulary)) - {model.folder.mask} - model.end_ids)


class WorkClock:
    """Seconds of computing, and jumps over idle time."""

    def __init__(self) -> None:
        self._offset = -process_time()

    def __call__(self) -> float:
        return process_time() + self._offset

    def jump_to(self, moment: float) -> None:
        self._offset += max(0.0, moment - self())


Ended = list[float]
"""When each arrival ended."""
Way = Callable[[Model, Sequence[Arrival]], Ended]


def one_at_a_time(model: Model, arrivals: Sequence[Arrival]) -> Ended:
    clock, ended = WorkClock(), []
    for arrival in arrivals:
        clock.jump_to(arrival.at)
        Stream(model, arrival.request).finish()
        ended.append(clock())
    return ended


def fixed_batches(model: Model, arrivals: Sequence[Arrival]) -> Ended:
    """The request that has waited longest, with up to seven others of its method and length."""
    clock = WorkClock()
    ended = [0.0] * len(arrivals)
    waiting = list(range(len(arrivals)))
    while waiting:
        clock.jump_to(arrivals[waiting[0]].at)
        now, first = clock(), arrivals[waiting[0]]
        there = [at for at in waiting if arrivals[at].at <= now and arrivals[at].kind == first.kind]
        batch = there[:TOGETHER]
        prompts = tuple(arrivals[at].request.prompts[0] for at in batch)
        Stream(model, replace(first.request, prompts=prompts)).finish()
        for at in batch:
            waiting.remove(at)
            ended[at] = clock()
    return ended


def engine_one_at_a_time(model: Model, arrivals: Sequence[Arrival]) -> Ended:
    """What the engine costs over the plain loop when it has one request at a time."""
    clock, ended, engine = WorkClock(), [], Engine(model)
    for arrival in arrivals:
        clock.jump_to(arrival.at)
        engine.enqueue(arrival.request).result()
        ended.append(clock())
    return ended


def by_engine(model: Model, arrivals: Sequence[Arrival], budget: int | None = None) -> Ended:
    clock = WorkClock()
    engine = Engine(model, clock=clock, budget=budget)
    ended = [0.0] * len(arrivals)
    coming = list(range(len(arrivals)))
    running: dict[int, Handle] = {}
    while coming or running:
        if not running:
            clock.jump_to(arrivals[coming[0]].at)
        while coming and arrivals[coming[0]].at <= clock():
            at = coming.pop(0)
            running[at] = engine.enqueue(arrivals[at].request)
        engine.turn()
        for at in [at for at, handle in running.items() if handle.done]:
            running.pop(at).results()
            ended[at] = clock()
    return ended


WAYS: dict[str, Way] = {
    "one at a time": one_at_a_time,
    "engine, one at a time": engine_one_at_a_time,
    "fixed batches": fixed_batches,
    "engine": by_engine,
}


@dataclass(frozen=True, kw_only=True)
class TrafficRow(ServiceOutcome):
    """One way to serve, at one load."""

    way: str
    load: float | str
    """Of what one at a time can serve; or all at once."""
    p99_small: float | None
    """None where none was small."""
    cpu: float
    """Seconds of computing per request."""


def traffic(
    model: Model, load: Load, loads: Sequence[float], repeats: int, budget: int | None = None
) -> list[TrafficRow]:
    """Every way at every load, in turn; medians over the repetitions."""
    requests = load.draw(model)
    alone = [_seconds_alone(model, request) for request in requests]
    rate = 1.0 / statistics.mean(alone)
    rows: dict[tuple[str, float], list[TrafficRow]] = {}
    for _ in range(repeats):
        for each in loads:
            arrivals = load.arrivals(requests, each * rate)
            for name, way in WAYS.items():
                started = process_time()
                ended = (
                    by_engine(model, arrivals, budget) if way is by_engine else way(model, arrivals)
                )
                row = _row(name, each, arrivals, ended, alone, process_time() - started)
                rows.setdefault((name, each), []).append(row)
    return [_median(same) for same in rows.values()]


def _seconds_alone(model: Model, request: Request) -> float:
    started = process_time()
    Stream(model, request).finish()
    return process_time() - started


def _row(
    name: str,
    load: float,
    arrivals: Sequence[Arrival],
    ended: Ended,
    alone: Sequence[float],
    computed: float,
) -> TrafficRow:
    waits = [end - arrival.at for end, arrival in zip(ended, arrivals, strict=True)]
    small = [wait for wait, arrival in zip(waits, arrivals, strict=True) if arrival.small]
    return TrafficRow(
        **figures(waits, alone, max(ended) - arrivals[0].at),
        way=name,
        load=ALL_AT_ONCE if load == float("inf") else load,
        p99_small=percentile(small, 99) if small else None,
        cpu=computed / len(waits),
    )


def _median(rows: Sequence[TrafficRow]) -> TrafficRow:
    """Of every figure."""
    medians = asdict(rows[0])
    for name in medians:
        values = [getattr(row, name) for row in rows]
        if name not in ("way", "load") and None not in values:
            medians[name] = statistics.median(values)
    return TrafficRow(**medians)


def tables(result: Result) -> list[Table]:
    """Every way at every load, and what the engine was to reach beside one at a time."""
    heads = {
        "mean": "mean s",
        "p50": "p50 s",
        "p99": "p99 s",
        "p99_small": "p99 s, small",
        "goodput": "goodput /s",
        "throughput": "served /s",
        "cpu": "CPU s each",
    }
    fields = [Field("way"), Field("load", of=lambda row: str(row["load"]))]
    fields += [Field(name, head) for name, head in heads.items()]
    return [table_of("Requests that arrive one by one", fields, result["rows"]), aims(result)]


@dataclass(frozen=True)
class Aim:
    """A figure of one way to serve as a ratio to one at a time, and what it should be."""

    name: str
    way: str
    load: float | str
    key: str
    bound: float
    at_least: bool = False

    def measured(self, result: Result) -> float | None:
        """None where it was not measured at this load."""
        ways = {row["way"]: row for row in result["rows"] if row["load"] == self.load}
        if not ways or ways[self.way][self.key] is None:
            return None
        return float(ways[self.way][self.key] / ways["one at a time"][self.key])

    def reached(self, result: Result) -> bool:
        ratio = self.measured(result)
        return ratio is not None and (ratio >= self.bound if self.at_least else ratio <= self.bound)


AIMS = (
    Aim("p99 of small requests", "engine", 0.8, "p99_small", 1 / 3),
    Aim("served /s", "engine", ALL_AT_ONCE, "throughput", 1.15, at_least=True),
    Aim("CPU without company", "engine, one at a time", 0.8, "cpu", 1.03),
    Aim("CPU without company", "engine, one at a time", ALL_AT_ONCE, "cpu", 1.03),
)


def aims(result: Result) -> Table:
    """What the engine was to reach beside one at a time, and what it did."""
    rows = [
        {
            "aim": aim.name,
            "load": str(aim.load),
            "bound": f"{'at least' if aim.at_least else 'at most'} {aim.bound:.2f}",
            "measured": aim.measured(result),
            "so": "reached" if aim.reached(result) else "missed",
        }
        for aim in AIMS
        if aim.measured(result) is not None
    ]
    heads = {"aim": "engine over one at a time", "load": "load", "bound": "aim"}
    heads |= {"measured": "measured", "so": "so"}
    return table_of("Aims", [Field(key, head) for key, head in heads.items()], rows)
