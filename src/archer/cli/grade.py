"""`archer grade`: completions in, verdicts out, without any model."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from archer.cli.messages import complain
from archer.cli.numbers import MaybePositive, MaybeProcesses
from archer.cli.options import DataFolder, Unconfined
from archer.cli.output import Json, emit, write_line
from archer.errors import BadRequest

if TYPE_CHECKING:
    from archer.tasks.base import Sample, Task
    from archer.tasks.grading import GradingReport

UNJUDGED = 1
HANGING = 4
SCORES = (
    *("score_clean", "n_clean", "score_strict", "macro_f1", "recall", "without_label"),
    *("cells", "by_givens"),
)
"""Further measures worth a line."""


def grade(
    task: str,
    completions: Path | None = None,
    *,
    data: DataFolder = None,
    raw: bool = False,
    reference: bool = False,
    limit: MaybePositive = None,
    workers: MaybeProcesses = None,
    json: Json = False,
    unsafe_no_sandbox: Unconfined = False,
) -> int:
    """Grade completions, without any model.

    Args:
        task: Name of a task; `archer tasks` lists them.
        completions: File with one {"task_id": ..., "completion": ...} per line.
        raw: Completions are whole programs or bare answers; nothing is extracted.
        reference: Grade the reference solutions instead.
        limit: Grade only the first N rows.
        workers: Programs to run at a time [default: one per core].
    """
    from archer.tasks import Data, open_task
    from archer.tasks.grading import GradingOptions
    from archer.tasks.grading import grade as graded

    if (completions is None) != reference:
        raise BadRequest("Give either a file with completions or --reference.")
    chosen = open_task(task, Data(data))
    given = _given(chosen, completions)[:limit]
    report = graded(chosen, given, GradingOptions(raw or reference, workers, unsafe_no_sandbox))
    emit(report.to_dict(), partial(_show, report), json=json)
    if report.unjudged:
        complain(f"{report.unjudged} of {len(report.rows)} rows could not be judged.")
    return UNJUDGED if report.unjudged else 0


def _given(task: Task, completions: Path | None) -> list[tuple[Sample, str]]:
    from archer.tasks.grading import read_completions

    for file in task.files:
        task.data.path(file)
    samples = task.samples()
    if completions is not None:
        return read_completions(completions, samples)
    known = {str(sample.id): sample for sample in samples}
    return [(known[str(each.id)], each.text) for each in task.references()]


def _show(report: GradingReport) -> None:
    for row in report.rows:
        verdict = row.repaired
        reason = f"  {verdict.reason}" if verdict.reason else ""
        differs = row.published.outcome != verdict.outcome
        published = f"  (as published: {row.published.outcome})" if differs else ""
        line = f"{row.id}  {verdict.outcome}  {verdict.seconds:.3f} s{published}{reason}"
        write_line(line, hanging=HANGING)
    confined = "" if report.tier is None else f", tier {report.tier}"
    write_line(f"{report.task}: {len(report.rows)} rows{confined}")
    write_line(f"{report.details['metric']} (repaired)      {_number(report.score)}")
    write_line(f"{report.details['metric']} (as published)  {_number(report.score_as_published)}")
    for name in SCORES:
        if name in report.details:
            write_line(f"{name}  {_number(report.details[name])}")


def _number(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_number(each)}" for key, each in value.items())
    if value is None:
        return "unknown"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
