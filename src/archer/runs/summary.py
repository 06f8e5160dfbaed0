"""Scores and costs of a run, derived from its journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from archer.runs.folder import Recorded
from archer.runs.records import COUNTS
from archer.runs.statistics import mean, wilson
from archer.tasks.base import AnswerTask, Sample, Task
from archer.tasks.grading import extracted_or_nothing


def summarise(
    task: Task, method: Mapping[str, Any], samples: Sequence[Sample], recorded: Recorded
) -> dict[str, Any]:
    """One object; a score is None until every problem has been completed and graded."""
    keys = [str(sample.id) for sample in samples]
    done = [recorded.samples[key] for key in keys if key in recorded.samples]
    graded = [recorded.grades[key] for key in keys if key in recorded.grades]
    complete = len(graded) == len(keys)
    return {
        "task": task.name,
        "method": method["name"],
        "settings": method["settings"],
        "n": len(keys),
        "complete": complete,
        "completed": len(done),
        "graded": len(graded),
        **_scores(task.metric, graded, complete),
        **costs(done),
        "tiers": sorted({grade["tier"] for grade in graded if grade["tier"] is not None}),
        **(_measures(task, samples, recorded) if complete else {}),
    }


def passed(grade: Mapping[str, Any], suite: str = "base", reading: str = "verdict") -> bool:
    """Whether a grade is a pass on a suite of its task."""
    return bool(grade["suites"][suite][reading] == "pass")


def _scores(metric: str, graded: Sequence[Mapping[str, Any]], complete: bool) -> dict[str, Any]:
    """`metric`, its interval, the same as published, and all of it for further suites."""
    found: dict[str, Any] = {}
    for suite in graded[0]["suites"] if graded else ("base",):
        name = metric if suite == "base" else f"{metric}_{suite}"
        found[name] = found[f"{name}_interval"] = found[f"{name}_as_published"] = None
        if not complete:
            continue
        wins = sum(passed(grade, suite) for grade in graded)
        found[name] = wins / len(graded)
        found[f"{name}_interval"] = list(wilson(wins, len(graded)))
        found[f"{name}_as_published"] = _share(
            passed(grade, suite, "verdict_as_published") for grade in graded
        )
        clean = [grade for grade in graded if "verdict_clean" in grade["suites"][suite]]
        if clean:
            found[f"{name}_clean"] = _share(passed(each, suite, "verdict_clean") for each in clean)
    return found


def costs(done: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Totals over the problems, and what one problem took on average."""
    totals: dict[str, Any] = {name: sum(record[name] for record in done) for name in COUNTS}
    updates = totals["updates"]
    totals["refresh_fraction"] = totals["full_passes"] / updates if updates else None
    totals["seconds"] = sum(record["seconds"]["total"] for record in done)
    average = {name: totals[name] / len(done) if done else None for name in (*COUNTS, "seconds")}
    return {**totals, "per_problem": average}


def _measures(task: Task, samples: Sequence[Sample], recorded: Recorded) -> dict[str, Any]:
    """Further measures of tasks with answers."""
    if not isinstance(task, AnswerTask):
        return {}
    answered = [
        (each, extracted_or_nothing(task, recorded.samples[str(each.id)]["completion"], each))
        for each in samples
    ]
    return {"measures": task.measures(answered)}


def _share(passes: Iterable[bool]) -> float:
    return mean([float(each) for each in passes])
