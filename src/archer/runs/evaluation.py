"""One run: what is missing is completed and graded side by side, on every suite, and recorded at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from archer.judge import Judge
from archer.runs.decoding import encode, shown_prompt
from archer.runs.executors.executor import Executor, Inline
from archer.runs.folder import Recorded, RunFolder
from archer.runs.journal import Journal
from archer.runs.manifest import RunRequest, circumstances, identity
from archer.runs.records import GradeLine, SampleLine, SuiteVerdict, Summary
from archer.runs.summary import harness_lines, summarise
from archer.tasks.base import VARIANTS, AnswerTask, CodeTask, Sample, Suite, Task
from archer.tasks.grading import GradedCompletion, OneCompletion, grade_answer, judged, plan
from archer.tasks.reader import open_readers


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


class RunListener(Protocol):
    """Hears of everything that is recorded. Called from several threads, one at a time per method."""

    def begun(self, total: int, recorded: Recorded) -> None: ...
    def sampled(self, record: SampleLine, worker: int) -> None: ...
    def graded(self, record: GradeLine) -> None: ...
    def notice(self, line: str) -> None:
        """Something that the user should know, and that the run survives."""
        ...


@dataclass(frozen=True)
class Evaluation:
    """What a run came to."""

    summary: Summary
    unjudged: tuple[str, ...]
    """Problems on which the judge failed."""


def evaluate(
    request: RunRequest,
    out: Path,
    listener: RunListener,
    *,
    executor: Executor | None = None,
    unsafe_no_sandbox: bool = False,
) -> Evaluation:
    """Run, or continue, the evaluation in a folder; whatever can be refused is refused first."""
    executor = executor or Inline()
    task = request.task
    samples = request.selection.of(task.samples())
    read_all_data(task, samples[0])
    prompts = encode(request, samples)
    with open_grader(task, unsafe_no_sandbox=unsafe_no_sandbox) as grader:
        run_identity = identity(request, samples)
        with RunFolder(
            out, run_identity, circumstances(request, grader.judge, executor.description)
        ) as folder:
            recorded = folder.recorded(planned=[str(sample.id) for sample in samples])
            listener.begun(len(samples), recorded)
            missing = [each for each in samples if str(each.id) not in recorded.samples]
            with _Grading(grader, folder.journal, listener) as grading:
                for sample in samples:
                    key = str(sample.id)
                    if key in recorded.samples and key not in recorded.grades:
                        grading.submit(sample, recorded.samples[key].completion)
                traces = folder.traces(str(each.id) for each in samples[: request.traces])
                with closing(
                    executor.completions(request, missing, prompts, traces, listener.notice)
                ) as completions:
                    for done in completions:
                        folder.journal.append(done.record.plain())
                        listener.sampled(done.record, done.worker)
                        grading.submit(done.sample, done.record.completion)
            recorded = folder.recorded()
            summary = summarise(grader.task, run_identity["method"], samples, recorded)
            shown = {key: shown_prompt(request, ids) for key, ids in prompts.items()}
            folder.write_samples(harness_lines(grader.task, samples, shown, recorded))
            folder.write_summary(summary)
    return Evaluation(summary, tuple(grading.unjudged))


def read_all_data(task: Task, sample: Sample) -> None:
    """Read whatever the grader will need, so that missing data are found now."""
    if isinstance(task, CodeTask):
        for suite in task.suites:
            for variant in VARIANTS:
                task.checks(sample, "", suite, variant)
            task.clean_checks(sample, "", suite)


class _Grading:
    """Grades in the background while the model goes on; errors surface when it is left."""

    def __init__(self, grader: Grader, journal: Journal, listener: RunListener) -> None:
        self.unjudged: list[str] = []
        self._grader, self._journal, self._listener = grader, journal, listener
        self._pool = ThreadPoolExecutor(grader.workers, thread_name_prefix="archer-grade")
        self._running: list[Future[None]] = []

    def __enter__(self) -> _Grading:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            wait(self._running, return_when=FIRST_EXCEPTION)
        self._pool.shutdown(cancel_futures=True)
        for each in self._running:
            if kind is None and not each.cancelled():
                each.result()

    def submit(self, sample: Sample, completion: str) -> None:
        """Also raises what went wrong with an earlier completion: a full disk ends the run at once."""
        for each in [each for each in self._running if each.done()]:
            self._running.remove(each)
            each.result()
        self._running.append(self._pool.submit(self._grade, sample, completion))

    def _grade(self, sample: Sample, completion: str) -> None:
        record = self._grader.record(sample, completion)
        if record is None:
            self.unjudged.append(str(sample.id))
            return
        self._journal.append(record.plain())
        self._listener.graded(record)


def run_folders(tasks: Sequence[str], out: Path) -> dict[str, Path]:
    """One task has the folder to itself; several have one each inside."""
    return {tasks[0]: out} if len(tasks) == 1 else {name: out / name for name in tasks}
