"""Whole trajectories, methods side by side on the same prompts, and what the cost model says of them.

Axes: P prompt columns, G response columns.

Two predictions stand beside each measured speedup.  One divides the operations that the passes of both
methods really took; the other knows only how many passes were full and cached, and eta = G / (P + G).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from archer.bench import cost
from archer.bench.counting import operations
from archer.bench.repeating import interleaved, spread
from archer.bench.shapes import Subject
from archer.bench.stage import some_prompt
from archer.errors import ArcherError
from archer.forward import Work
from archer.generation import Kind, Loop
from archer.methods import Method

REFERENCES = ("saber", "llada-confidence")
"""Methods over which speedups are told."""


@dataclass(frozen=True)
class Run:
    """All prompts decoded once by one method, one at a time."""

    updates: int
    full: int
    cached: int
    reused: int
    seconds: float
    work: Work


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
class Row:
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

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def decode(
    subject: Subject, methods: Sequence[Method], prompt: int, prompts: int, repeats: int
) -> list[Row]:
    """Every method on the same `prompts` random prompts of `prompt` ids each."""
    subjects = {method.name: partial(_run, subject, method, prompt, prompts) for method in methods}
    runs = interleaved(subjects, repeats)
    lengths = {method.name: method.length for method in methods}
    return [_row(subject, name, runs, cost.eta(prompt, lengths[name])) for name in runs]


def _run(subject: Subject, method: Method, prompt: int, prompts: int) -> Run:
    loop = Loop(subject.network, subject.shift, method.decoder, method.policy)
    kinds = dict.fromkeys(Kind, 0)
    seconds, work = 0.0, Work()
    for seed in range(prompts):
        state = method.decoder.start(some_prompt(subject, prompt, seed=seed), method.length)
        for step in loop.steps(state):
            for error in step.errors.values():
                raise ArcherError(f"{method.name} cannot be timed to its end: {error}")
            kinds[step.calls[0].kind] += 1
            seconds += step.calls[0].seconds + step.control
            work += step.work
    return Run(
        updates=sum(kinds.values()),
        full=kinds[Kind.FULL],
        cached=kinds[Kind.CACHED],
        reused=kinds[Kind.REUSED],
        seconds=seconds,
        work=work,
    )


def _row(subject: Subject, name: str, runs: dict[str, list[Run]], eta: float) -> Row:
    own = runs[name][0]
    references = [each for each in REFERENCES if each in runs]
    return Row(
        method=name,
        updates=own.updates,
        full=own.full,
        cached=own.cached,
        reused=own.reused,
        seconds=_seconds(runs[name]),
        spread=spread([each.seconds for each in runs[name]]),
        operations=operations(own.work, subject.network.shape),
        over={each: _versus(subject, runs[each], runs[name], eta) for each in references},
    )


def _versus(subject: Subject, reference: list[Run], own: list[Run], eta: float) -> Versus:
    shape = subject.network.shape
    base, made = reference[0], own[0]
    measured = _seconds(reference) / _seconds(own)
    predicted = operations(base.work, shape) / operations(made.work, shape)
    passes = (base.updates - base.reused, made.updates - made.reused)
    by_counts = cost.speedup(*passes, made.full, eta)
    return Versus(
        speedup=measured,
        predicted=predicted,
        error=predicted / measured - 1.0,
        predicted_eta=by_counts,
        error_eta=by_counts / measured - 1.0,
    )


def _seconds(runs: Sequence[Run]) -> float:
    return statistics.median(each.seconds for each in runs)
