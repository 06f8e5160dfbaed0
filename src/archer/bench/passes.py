"""How long whole turns of the engine take here, over drawn mixes of requests with full and cached passes."""

import random
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Any

import torch

from archer.bench.facts import Result
from archer.bench.traffic import plain_ids
from archer.costs.pass_times import Fitted, Timed
from archer.costs.recording import timed_of
from archer.costs.workload import PassShare
from archer.engine.engine import Engine
from archer.engine.handle import Listener
from archer.methods.build import build
from archer.model import Model
from archer.pages.tables import Field, Table, table_of
from archer.request.request import Form, Request
from archer.results.step import Step

UNBOUNDED = sys.maxsize
"""Columns of a pass that are never reached."""
FULL, CACHED, MASKS = "saber", "saber+archer:inf", "llada-confidence"
"""A full pass at every update; a cached one from the second update on; a full one that scores masks alone."""


@dataclass(frozen=True)
class Mixes:
    """What is drawn: how many mixes, and the ranges of their rows."""

    mixes: int = 24
    rows: tuple[int, ...] = (1, 2, 3, 4, 6, 8)
    prompts: tuple[int, int] = (40, 400)
    lengths: tuple[int, ...] = (32, 64, 96, 128)
    repeats: int = 5
    """Turns of each mix that are timed, after one that is not."""
    seed: int = 0

    def draw(self, model: Model) -> Iterator[list[Request]]:
        draw = random.Random(self.seed)
        plain = plain_ids(model)
        for number in range(self.mixes):
            requests = []
            for _ in range(self.rows[number % len(self.rows)]):
                prompt = tuple(draw.choices(plain, k=draw.randint(*self.prompts)))
                name = draw.choice((FULL, CACHED, CACHED, MASKS))
                method = build(name, {"length": draw.choice(self.lengths)})
                requests.append(Request(method, (Form(prompt),), 0, model.language))
            yield requests


@dataclass
class _Shares(Listener):
    """What the rows of a turn computed."""

    seen: list[PassShare] = field(default_factory=list)

    def stepped(self, step: Step[Any]) -> None:
        self.seen.append(PassShare.of(step))


def passes(model: Model, mixes: Mixes) -> list[Timed]:
    """One for every turn that was seen, the median of equal ones; every mix runs twice, the second counts."""
    shares = []
    for requests in mixes.draw(model):
        _timed(model, requests, 1)
        shares += _timed(model, requests, mixes.repeats)
    return shares


def _timed(model: Model, requests: Sequence[Request], repeats: int) -> list[Timed]:
    engine, listener = Engine(model, budget=UNBOUNDED), _Shares()
    for request in requests:
        engine.enqueue(request, listener=listener)
    clock = process_time if _on_one_thread(model) else perf_counter
    engine.turn()
    taken: dict[tuple[PassShare, ...], list[float]] = {}
    for _ in range(repeats):
        listener.seen.clear()
        started = clock()
        engine.turn()
        seconds = clock() - started
        taken.setdefault(tuple(listener.seen), []).append(seconds)
    engine.close()
    return [Timed(shares, statistics.median(times)) for shares, times in taken.items() if shares]


def _on_one_thread(model: Model) -> bool:
    """Then time is what this process computes, whatever else the machine does."""
    threads = model.threads or torch.get_num_threads()
    return model.network.device.type == "cpu" and threads == 1


def tables(result: Result) -> list[Table]:
    """Turns by the number of their rows, and what was fitted to them."""
    timed = timed_of(result, "the result")
    fitted = Fitted(**result["fitted"])
    rows = []
    for count in sorted({len(each.shares) for each in timed}):
        same = [each for each in timed if len(each.shares) == count]
        shares = [share for each in same for share in each.shares]
        seconds = statistics.mean(each.seconds for each in same)
        guessed = statistics.mean(fitted.seconds(each.shares) for each in same)
        rows.append(
            {
                "rows": count,
                "turns": len(same),
                "columns": sum(share.columns for share in shares) // len(same),
                "keys": sum(share.keys for share in shares) // len(same),
                "ms": 1e3 * seconds,
                "fitted ms": 1e3 * guessed,
                "error (%)": 100 * (guessed / seconds - 1),
            }
        )
    costs = [
        {"cost": name.replace("_", " "), "microseconds": 1e6 * seconds}
        for name, seconds in result["fitted"].items()
        if name != "error"
    ]
    off = f"The median turn is off by {100 * fitted.error:.1f} %."
    return [
        table_of("Turns of the engine", [Field(name) for name in rows[0]], rows),
        table_of("Fitted", [Field(name, digits=3) for name in costs[0]], costs, (off,)),
    ]
