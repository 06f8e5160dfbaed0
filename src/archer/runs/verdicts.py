"""Grades of a run: each completion on every suite of its task, in both readings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from archer.judge import Judge
from archer.runs.records import GradeLine, SuiteVerdict
from archer.tasks.base import AnswerTask, CodeTask, Sample, Suite, Task
from archer.tasks.grading import OneCompletion, grade_answer, judged, plan
from archer.tasks.reader import open_readers
from archer.tasks.report import GradedCompletion


@dataclass(frozen=True)
class Grader:
    """Grades completions; `workers` threads may call it at a time."""

    task: Task
    """The task, which looks at completions in confined processes while the grader is open."""
    rows: Callable[[Sample, str], dict[Suite, GradedCompletion]]
    workers: int
    judge: Mapping[str, Any] | None
    """How programs are confined; None for a task that runs none."""

    def record(self, sample: Sample, completion: str) -> GradeLine | None:
        """What the journal keeps; None where the judge failed, because its faults are no verdicts."""
        rows = self.rows(sample, completion)
        if any(row.unjudged for row in rows.values()):
            return None
        suites: dict[str, SuiteVerdict] = {
            suite: SuiteVerdict.model_validate(row.verdicts()) for suite, row in rows.items()
        }
        tier = None if self.judge is None else self.judge["tier"]
        return GradeLine(event="grade", id=sample.id, tier=tier, suites=suites)


@contextmanager
def open_grader(task: Task, *, unsafe_no_sandbox: bool = False) -> Iterator[Grader]:
    """A grader with whatever it needs while it runs."""
    if isinstance(task, CodeTask):
        with (
            Judge(
                task.limits, unsafe_no_sandbox=unsafe_no_sandbox, packages=task.packages
            ) as judge,
            open_readers(judge.workers, judge.tier) as readers,
        ):
            code = task.reading_by(readers.read)

            def rows(sample: Sample, text: str) -> dict[Suite, GradedCompletion]:
                one = OneCompletion(judge)
                return {
                    suite: judged(one, plan(code, sample, text, suite)) for suite in code.suites
                }

            yield Grader(code, rows, judge.workers, judge.description())
    else:
        assert isinstance(task, AnswerTask)
        with open_readers() as readers:
            answers = task.reading_by(readers.read)
            with answers.grading() as graded:
                yield Grader(
                    answers,
                    lambda sample, text: {"base": grade_answer(answers, graded, sample, text)[0]},
                    1,
                    None,
                )
