"""A completion that finds no end costs its own time, once, and nobody else's again."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pytest

from archer.judge import Check, FunctionCheck, Judge, Limits, Verdict
from archer.judge.reader import KnownResult, ReadCache, Readers, Unreadable
from archer.runs.evaluation import open_grader
from archer.tasks import CodeTask, Data, Reference, Sample, Suite, Variant, grading
from archer.tasks.base import user
from archer.tasks.grading import GradingOptions, grade
from archer.tasks.reader import open_readers

ENDLESS = "def f(x):\n    while True: x = 1\n"
HASTY = Limits(cpu_seconds=2, wall_seconds=0.2)


class Five(CodeTask):
    """Five different checks of one completion: two suites in two readings, and the good tests of one."""

    name = "five"
    metric = "pass@1"
    files: ClassVar[tuple[Any, ...]] = ()
    limits = HASTY
    suites: ClassVar[tuple[Suite, ...]] = ("extended", "base")

    def samples(self) -> Sequence[Sample]:
        return [Sample(number, user("?"), "", {}) for number in range(3)]

    def references(self) -> Iterator[Reference]:
        return iter(())

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        return str(self.read("pocket_repaired", response, header="", name=f"{variant[0]}"))

    def checks(
        self, sample: Sample, program: str, suite: Suite, variant: Variant
    ) -> tuple[Check, ...]:
        return (FunctionCheck(program, "f", f"assert f(1) == 2 # {suite} {variant}", (), HASTY),)

    def clean_checks(self, sample: Sample, program: str, suite: Suite) -> tuple[Check, ...] | None:
        if suite == "base":
            return None
        return (FunctionCheck(program, "f", "assert f(1) == 2 # clean", (), HASTY),)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each test of an endless program was run."""
    counted: Counter[str] = Counter()
    once = Judge._grade_once

    def count(self: Judge, check: Check) -> Verdict:
        if check.program.startswith(ENDLESS.rstrip()):
            assert isinstance(check, FunctionCheck)
            counted[check.test.partition("# ")[2]] += 1
        return once(self, check)

    monkeypatch.setattr(Judge, "_grade_once", count)
    return counted


def test_an_endless_completion_runs_alone_once(runs: Counter[str]) -> None:
    task = Five(Data())
    honest = "def f(x):\n    return x + 1\n"
    texts = [ENDLESS, honest, ENDLESS]
    report = grade(task, list(zip(task.samples(), texts, strict=True)), GradingOptions(workers=1))
    assert [row.repaired.outcome for row in report.rows] == ["timeout", "pass", "timeout"]
    assert {row.published.outcome for row in report.rows[::2]} == {"timeout"}
    assert runs == {"extended repaired": 4, "extended as_published": 2, "clean": 2}


def test_an_endless_completion_of_a_run_runs_alone_once(runs: Counter[str]) -> None:
    task = Five(Data())
    with open_grader(task) as grader:
        record = grader.record(task.samples()[0], ENDLESS)
    assert record is not None
    assert {each.verdict for each in record.suites.values()} == {"timeout"}
    assert sum(runs.values()) == len(runs) + 1 == 6


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each operation was tried on a text; texts of one letter take for ever."""
    counted: Counter[str] = Counter()
    once = Readers._read_once

    def count(self: Readers, operation: str, text: str, facts: Any) -> Any:
        if set(text) == {"x"}:
            counted[f"{operation} {facts['name']}"] += 1
            raise Unreadable("timeout", "The completion could not be read within 3 s.")
        return once(self, operation, text, facts)

    monkeypatch.setattr(Readers, "_read_once", count)
    return counted


def test_a_text_that_takes_for_ever_is_looked_at_once_in_each_reading(
    looks: Counter[str],
) -> None:
    """Twice that is, in case the machine was at fault; over all suites, and what is shown of it later."""
    task = Five(Data())
    with open_grader(task) as grader:
        record = grader.record(task.samples()[0], "xxx")
        assert grading.extracted_or_nothing(grader.task, "xxx", task.samples()[0]) == ""
        assert grader.record(task.samples()[1], "xxx") is not None
    assert record is not None
    assert {each.verdict for each in record.suites.values()} == {"timeout"}
    assert looks == {"pocket_repaired r": 2, "pocket_repaired a": 2}
    looks.clear()
    report = grade(task, [(task.samples()[0], "xxx")], GradingOptions(workers=1))
    assert report.rows[0].repaired.outcome == "timeout"
    assert looks == {"pocket_repaired r": 2, "pocket_repaired a": 2}


def test_what_took_long_is_remembered_and_a_fault_of_the_machine_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def read(self: Readers, operation: str, text: str, facts: Any) -> Any:
        asked.append(text)
        if text == "fault":
            raise Unreadable("harness_error", "no process")
        return text.upper()

    monkeypatch.setattr(Readers, "_read_once", read)
    with open_readers() as readers:
        for _ in range(3):
            assert readers.read("any", "quick") == "QUICK"
        monkeypatch.setattr("archer.judge.reader.LONG", 0.0)
        for _ in range(3):
            assert readers.read("any", "slow") == "SLOW"
            assert readers.read("other", "slow") == "SLOW"
            with pytest.raises(Unreadable, match="no process"):
                readers.read("any", "fault")
    assert Counter(asked) == {"quick": 3, "slow": 2, "fault": 6}


def test_large_findings_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archer.judge.reader.MOST_KEPT", 10)
    known = ReadCache()
    known.keep(b"never", Verdict("timeout"))
    for key in (b"a", b"b", b"c"):
        known.keep(key, KnownResult("12345"))
    assert known.get(b"a") is None
    assert known.get(b"c") == KnownResult("12345")
    assert known.get(b"never") is not None
