"""Whole trajectories, methods side by side on the same prompts, and what the cost model says of them.

Axes: P prompt columns, G response columns.

The methods take their updates in turn: whatever else the machine does is spread over all of them alike.

Two predictions stand beside each measured speedup.  One divides the operations that the passes of both
methods really took; the other knows only how many passes were full and cached, and eta = G / (P + G).
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import Any

from archer.bench.facts import Result
from archer.bench.repeating import spread
from archer.bench.subject import Subject, in_eight_bits, some_prompt
from archer.costs.counting import eta, speedup
from archer.engine.walk import steps_of
from archer.errors import ArcherError
from archer.methods.build import Method
from archer.network.shape import Scheme
from archer.pages.tables import Field, Table, percent, table_of
from archer.passes.work import Work, operations
from archer.results.step import Kind, Step

REFERENCES = ("saber", "llada-confidence")
"""Methods over which speedups are told."""
WARM_UP = 8
"""Updates of each method before anything is counted."""


@dataclass
class DecodedPrompts:
    """All prompts decoded once by one method, one at a time."""

    kinds: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(Kind, 0))
    seconds: float = 0.0
    work: Work = field(default_factory=Work)

    def add(self, step: Step[Any]) -> None:
        self.kinds[step.calls[0].kind] += 1
        self.seconds += step.calls[0].seconds + step.control
        self.work += step.work

    @property
    def updates(self) -> int:
        return sum(self.kinds.values())

    @property
    def passes(self) -> int:
        return self.updates - self.kinds[Kind.REUSED]


@dataclass(frozen=True)
class Versus:
    """One method against one reference."""

    speedup: float
    predicted: float
    """From counted operations."""
    error: float
    """predicted / measured - 1"""
    predicted_eta: float
    """From the numbers of passes alone."""
    error_eta: float


@dataclass(frozen=True)
class MethodRow:
    """One method."""

    method: str
    updates: int
    full: int
    cached: int
    reused: int
    seconds: float
    spread: float
    operations: int
    over: dict[str, Versus]


def decode(
    subject: Subject,
    methods: Sequence[Method],
    prompt: int,
    prompts: int,
    repeats: int,
    schemes: Sequence[Scheme] = (),
) -> list[MethodRow]:
    """Every method on the same `prompts` random prompts of `prompt` ids each, with each scheme as well."""
    runners = {method.name: (subject, method) for method in methods}
    for scheme in schemes:
        small = in_eight_bits(subject, scheme)
        runners |= {f"{method.name}, {scheme}": (small, method) for method in methods}
    for runner in runners.values():
        for _ in islice(_steps(*runner, prompt, prompts), WARM_UP):
            pass
    rounds = [_in_turn(runners, prompt, prompts) for _ in range(repeats)]
    runs = {name: [each[name] for each in rounds] for name in runners}
    rivals = [*REFERENCES, *(method.name for method in methods if schemes)]
    references = [name for name in dict.fromkeys(rivals) if name in runs]
    return [
        _row(subject, name, runs, references, eta(prompt, method.length))
        for name, (_, method) in runners.items()
    ]


def _in_turn(
    runners: Mapping[str, tuple[Subject, Method]], prompt: int, prompts: int
) -> dict[str, DecodedPrompts]:
    """One update of each after the other, until all have ended."""
    runs = {name: DecodedPrompts() for name in runners}
    going = {name: _steps(*runner, prompt, prompts) for name, runner in runners.items()}
    for steps in zip_longest(*going.values()):
        for name, step in zip(going, steps, strict=True):
            if step is not None:
                runs[name].add(step)
    return runs


def _steps(subject: Subject, method: Method, prompt: int, prompts: int) -> Iterator[Step[Any]]:
    """All updates of one prompt after the other."""
    for seed in range(prompts):
        state = method.decoder.start(some_prompt(subject, prompt, seed=seed), method.length)
        for step in steps_of(subject.network, method, state):
            for error in step.errors.values():
                raise ArcherError(f"{method.name} cannot be timed to its end: {error}")
            yield step


def _row(
    subject: Subject,
    name: str,
    runs: dict[str, list[DecodedPrompts]],
    references: Sequence[str],
    eta: float,
) -> MethodRow:
    own = runs[name][0]
    return MethodRow(
        method=name,
        updates=own.updates,
        full=own.kinds[Kind.FULL],
        cached=own.kinds[Kind.CACHED],
        reused=own.kinds[Kind.REUSED],
        seconds=statistics.median(each.seconds for each in runs[name]),
        spread=spread([each.seconds for each in runs[name]]),
        operations=operations(own.work, subject.network.shape),
        over={each: _versus(subject, runs[each], runs[name], eta) for each in references},
    )


def _versus(
    subject: Subject, reference: list[DecodedPrompts], own: list[DecodedPrompts], eta: float
) -> Versus:
    shape = subject.network.shape
    base, mine = reference[0], own[0]
    pairs = zip(reference, own, strict=True)
    measured = statistics.median(theirs.seconds / ours.seconds for theirs, ours in pairs)
    predicted = operations(base.work, shape) / operations(mine.work, shape)
    by_counts = speedup(base.passes, mine.passes, mine.kinds[Kind.FULL], eta)
    return Versus(
        speedup=measured,
        predicted=predicted,
        error=predicted / measured - 1.0,
        predicted_eta=by_counts,
        error_eta=by_counts / measured - 1.0,
    )


def table(result: Result) -> Table:
    """Methods side by side, with what the cost model predicts by operations and by eta."""
    fields = [
        *(Field(name) for name in ("method", "updates", "full", "cached", "reused", "seconds")),
        percent("spread", "spread"),
    ]
    rows = [dict(row) for row in result["rows"]]
    for name in rows[0]["over"]:
        for row in rows:
            row |= {f"{name} {key}": value for key, value in row["over"][name].items()}
        fields += [
            Field(f"{name} speedup", f"over {name}"),
            Field(f"{name} predicted", "predicted"),
            percent(f"{name} error", "error"),
            Field(f"{name} predicted_eta", "by eta"),
            percent(f"{name} error_eta", "error"),
        ]
    return table_of("Whole trajectories", fields, rows)
