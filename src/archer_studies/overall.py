"""Averages over benchmarks as the paper makes them: of all scores, and of the speedups.

A problem that several benchmarks share is one cluster: it is resampled with all its outcomes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from archer.runs.statistics import bootstrap, mean, ratio_of_sums
from archer.runs.workspace import Arm
from archer_studies.arms import PERCENT
from archer_studies.study import Row


@dataclass(frozen=True)
class Outcome:
    """One problem of one benchmark."""

    scores: Mapping[str, float]
    """By suite, in per cent."""
    seconds: tuple[float, float] | None
    """Of the reference, and of the method; None where they were not decoded in turn."""


Problem = Mapping[str, Outcome]
"""By benchmark."""


def overall(arms: Mapping[str, tuple[Arm, Arm]]) -> Row:
    """Performance and speedup over benchmarks; each is given a method's arm and the reference's."""
    problems = problems_of(arms)
    timed = [
        each for each in problems if any(outcome.seconds is not None for outcome in each.values())
    ]
    return {
        "n": len(problems),
        "performance": performance(problems),
        "performance_interval": list(bootstrap(problems, performance)),
        "speedup": speedup(timed),
        "speedup_interval": list(bootstrap(timed, speedup)),
    }


def problems_of(arms: Mapping[str, tuple[Arm, Arm]]) -> list[Problem]:
    """Problems with their outcomes on each benchmark that has them."""
    found: dict[str, dict[str, Outcome]] = defaultdict(dict)
    for task, (arm, reference) in arms.items():
        for key in arm.keys:
            suites = arm.run.recorded.grades[key].suites
            scores = {suite: PERCENT * arm.passed(key, suite) for suite in suites}
            timed = key in arm.in_turn
            seconds = (reference.in_turn[key], arm.in_turn[key]) if timed else None
            found[key][task] = Outcome(scores, seconds)
    return list(found.values())


def performance(problems: Sequence[Problem]) -> float:
    """The mean of the scores: one per benchmark and suite."""
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    for problem in problems:
        for task, outcome in problem.items():
            for suite, score in outcome.scores.items():
                scores[task, suite].append(score)
    return mean([mean(values) for values in scores.values()])


def speedup(problems: Sequence[Problem]) -> float:
    """The mean of the speedups: one per benchmark."""
    seconds: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for problem in problems:
        for task, outcome in problem.items():
            if outcome.seconds is not None:
                seconds[task].append(outcome.seconds)
    return mean([ratio_of_sums(pairs) for pairs in seconds.values()])
