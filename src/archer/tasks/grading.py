"""Grades completions of a task: extraction in both variants, the judge or the comparison, a report."""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Protocol, TypeVar

from archer.errors import BadRequest, reason_of
from archer.judge import Check, Judge, Verdict
from archer.judge.reader import Unreadable
from archer.tasks.base import AnswerTask, CodeTask, Grade, Sample, Suite, Task, Variant
from archer.tasks.reader import open_readers


@dataclass(frozen=True)
class GradedCompletion:
    """The verdicts on one completion. `clean` only where the tests have known faults."""

    id: str | int
    repaired: Verdict
    published: Verdict
    clean: Verdict | None = None

    @property
    def unjudged(self) -> bool:
        """Whether the judge failed on any reading of the completion."""
        verdicts = (self.repaired, self.published, self.clean)
        return any(each is not None and each.outcome == "harness_error" for each in verdicts)

    def to_dict(self) -> dict[str, Any]:
        return {"task_id": self.id, **self.verdicts()}

    def verdicts(self) -> dict[str, Any]:
        plain = {
            "verdict": self.repaired.outcome,
            "reason": self.repaired.reason,
            "seconds": round(self.repaired.seconds, 6),
            "verdict_as_published": self.published.outcome,
            "reason_as_published": self.published.reason,
        }
        return plain if self.clean is None else plain | {"verdict_clean": self.clean.outcome}


@dataclass(frozen=True)
class GradingReport:
    """All rows with their scores, as fractions of the rows given."""

    task: str
    rows: Sequence[GradedCompletion]
    tier: str | None
    """How programs were confined; None for a task that runs none."""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def score(self) -> float | None:
        return share(row.repaired for row in self.rows)

    @property
    def score_as_published(self) -> float | None:
        return share(row.published for row in self.rows)

    @property
    def unjudged(self) -> int:
        """Rows on which the judge failed."""
        return sum(row.unjudged for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "n": len(self.rows),
            "score": self.score,
            "score_as_published": self.score_as_published,
            "rows": [row.to_dict() for row in self.rows],
            "tier": self.tier,
            "details": self.details,
        }


def share(verdicts: Iterable[Verdict | None]) -> float | None:
    """The fraction that passed; None without verdicts, or if the judge failed on one."""
    outcomes = [each.outcome for each in verdicts if each is not None]
    if not outcomes or "harness_error" in outcomes:
        return None
    return outcomes.count("pass") / len(outcomes)


AHEAD = 2
Given = Sequence[tuple[Sample, str]]
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class GradingOptions:
    """`raw`: the texts are programs or answers, not responses. The rest goes to the judge."""

    raw: bool = False
    workers: int | None = None
    unsafe_no_sandbox: bool = False


def grade(task: Task, given: Given, options: GradingOptions | None = None) -> GradingReport:
    """The verdict on every completion, in the order given."""
    options = options or GradingOptions()
    if isinstance(task, CodeTask):
        return _grade_programs(task, given, options)
    assert isinstance(task, AnswerTask)
    return _grade_answers(task, given, options)


def _extracted(task: Task, text: str, sample: Sample, variant: Variant, raw: bool) -> str:
    return text if raw else task.extract(text, sample, variant)


def _grade_answers(task: AnswerTask, given: Given, options: GradingOptions) -> GradingReport:
    rows, answered = [], []
    with open_readers() as readers:
        confined = task.reading_by(readers.read)
        with confined.grading() as graded:
            for sample, text in given:
                row, answer = grade_answer(confined, graded, sample, text, options.raw)
                rows.append(row)
                answered.append((sample, answer))
        measures = confined.measures(answered)
    return GradingReport(task.name, rows, None, _details(task) | measures)


def grade_answer(
    task: AnswerTask, graded: Grade, sample: Sample, text: str, raw: bool = False
) -> tuple[GradedCompletion, str]:
    """The verdicts on one answer, and the answer as repaired; a text that cannot be read has none."""
    repaired, answer = _grade_answer(task, graded, sample, text, "repaired", raw)
    published, _ = _grade_answer(task, graded, sample, text, "as_published", raw)
    return GradedCompletion(sample.id, repaired, published), answer


def _grade_answer(
    task: AnswerTask, graded: Grade, sample: Sample, text: str, variant: Variant, raw: bool
) -> tuple[Verdict, str]:
    try:
        answer = _extracted(task, text, sample, variant, raw)
        return graded(sample, answer, variant), answer
    except Unreadable as fault:
        return fault.verdict, ""


def extracted_or_nothing(task: Task, text: str, sample: Sample) -> str:
    """The repaired extraction for show: empty for a text that cannot be read."""
    try:
        return task.extract(text, sample, "repaired")
    except Unreadable:
        return ""


ChecksOrVerdict = tuple[Check, ...] | Verdict
"""Checks for the judge, or the verdict where a text cannot even be read."""


@dataclass(frozen=True)
class CheckPlan:
    """What has to be checked about one completion on one suite."""

    id: str | int
    repaired: ChecksOrVerdict
    published: ChecksOrVerdict
    clean: ChecksOrVerdict | None


def _grade_programs(task: CodeTask, given: Given, options: GradingOptions) -> GradingReport:
    suite = task.suites[0]
    with Judge(
        task.limits,
        options.workers,
        unsafe_no_sandbox=options.unsafe_no_sandbox,
        packages=task.packages,
    ) as judge:
        description = judge.description()
        with open_readers(judge.workers, judge.tier) as readers:
            confined = task.reading_by(readers.read)

            def judge_one(item: tuple[Sample, str]) -> GradedCompletion:
                return judged(OneCompletion(judge), plan(confined, *item, suite, options.raw))

            rows = list(_in_order(judge_one, given, judge.workers))
    details = _details(task) | {"judge": description}
    if task.clean_checks(given[0][0], "", suite) is not None:
        clean = [row.clean for row in rows if row.clean is not None]
        details |= {"score_clean": share(clean), "n_clean": len(clean)}
    return GradingReport(task.name, rows, description["tier"], details)


def plan(task: CodeTask, sample: Sample, text: str, suite: Suite, raw: bool = False) -> CheckPlan:
    """The checks that a completion needs; nothing is run."""

    def checks_of(variant: Variant) -> tuple[ChecksOrVerdict, str | None]:
        try:
            program = _extracted(task, text, sample, variant, raw)
            return task.checks(sample, program, suite, variant), program
        except Unreadable as fault:
            return fault.verdict, None

    repaired, program = checks_of("repaired")
    published, _ = checks_of("as_published")
    clean: ChecksOrVerdict | None = task.clean_checks(sample, program or "", suite)
    if program is None and clean:
        clean = repaired
    return CheckPlan(sample.id, repaired, published, clean)


class Grades(Protocol):
    """A judge, or one with a memory."""

    def grade(self, check: Check) -> Verdict: ...


class OneCompletion:
    """The judge for all checks of one completion, which gets one second chance alone: others wait."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._again = True

    def grade(self, check: Check) -> Verdict:
        """A timeout is run once more, unless it was one alone before."""
        verdict = self._judge.grade(check, again=self._again)
        self._again = self._again and verdict.outcome != "timeout"
        return verdict


def judged(judge: Grades, plan: CheckPlan) -> GradedCompletion:
    repaired = verdict_on(judge, plan.repaired)
    same = plan.published == plan.repaired
    published = repaired if same else verdict_on(judge, plan.published)
    return GradedCompletion(plan.id, repaired, published, _clean(judge, plan, repaired))


def _clean(judge: Grades, plan: CheckPlan, repaired: Verdict) -> Verdict | None:
    """Whoever passes all tests passes the good ones."""
    if not plan.clean:
        return None
    if repaired.outcome == "pass" or plan.clean == plan.repaired:
        return repaired
    return verdict_on(judge, plan.clean)


def verdict_on(judge: Grades, checks: ChecksOrVerdict) -> Verdict:
    """The first verdict that is no pass, or a pass of all. A fault of the judge is given a second try."""
    if isinstance(checks, Verdict):
        return checks
    if not checks:
        return Verdict("fail", "The problem has no test that could be run.")
    seconds, calls, flooded = 0.0, 0, False
    for number, check in enumerate(checks, start=1):
        verdict = judge.grade(check)
        if verdict.outcome == "harness_error":
            verdict = judge.grade(check)
        seconds, calls = seconds + verdict.seconds, calls + verdict.calls
        flooded = flooded or verdict.flooded
        if verdict.outcome != "pass":
            reason = f"Test {number} of {len(checks)}: {verdict.reason}"
            return replace(
                verdict, seconds=seconds, reason=reason if len(checks) > 1 else verdict.reason
            )
    return Verdict("pass", seconds=seconds, calls=calls, flooded=flooded)


def _in_order(
    function: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Iterator[Result]:
    """Results in the order of the items, of which only a few are taken ahead."""
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="archer-grade")
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > AHEAD * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _details(task: Task) -> dict[str, object]:
    return {"version": task.version, "metric": task.metric, "data": dict(task.data.digests)}


LONGEST_LINE = 4 << 20
LARGEST_FILE = 128 << 20
FORM = '{"task_id": ..., "completion": "..."}'


def read_completions(path: Path, samples: Sequence[Sample]) -> list[tuple[Sample, str]]:
    """Every completion with its problem, in the file's order; other fields are passed over."""
    known = {str(sample.id): sample for sample in samples}
    seen: dict[str, int] = {}
    completions = []
    for number, line in _lines(path):
        where = f"Line {number} of {path}"
        key, text = _completion(line, where)
        if key not in known:
            raise BadRequest(f"{where} has the task_id {key!r}, which the task does not have.")
        if key in seen:
            raise BadRequest(f"{where} has the task_id {key!r}, as line {seen[key]} has already.")
        seen[key] = number
        completions.append((known[key], text))
    if not completions:
        raise BadRequest(f"{path} holds no completions; it needs lines such as {FORM}.")
    return completions


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Line by line, so that no more of a file is held than its completions."""
    size = 0
    try:
        with path.open("rb") as file:
            for number in count(1):
                line = file.readline(LONGEST_LINE + 1)
                size += len(line)
                if not line:
                    return
                if len(line) > LONGEST_LINE:
                    raise BadRequest(
                        f"Line {number} of {path} is longer than {LONGEST_LINE} bytes."
                    )
                if size > LARGEST_FILE:
                    raise BadRequest(
                        f"{path} has more than {LARGEST_FILE} bytes of completions. Give it in parts."
                    )
                if line.strip():
                    yield number, line
    except OSError as error:
        raise BadRequest(f"{path} cannot be read ({reason_of(error)}).") from error


def _completion(line: bytes, where: str) -> tuple[str, str]:
    try:
        entry: Any = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{where} is not JSON ({error}); a line must look like {FORM}.") from None
    if not isinstance(entry, dict) or not {"task_id", "completion"} <= entry.keys():
        raise BadRequest(f"{where} lacks task_id or completion; a line must look like {FORM}.")
    key, text = entry["task_id"], entry["completion"]
    if isinstance(key, bool) or not isinstance(key, int | str):
        raise BadRequest(f"{where} has a task_id that is neither a number nor a text.")
    if not isinstance(text, str):
        raise BadRequest(f"{where} has a completion that is not a text.")
    return str(key), text
