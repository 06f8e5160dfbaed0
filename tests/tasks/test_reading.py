"""Reading what models wrote: as the published expressions read it, in time that grows with the text,
and in a process whose end is the verdict on one text and nobody else's."""

import re
import resource
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest

from archer.judge import Check, FunctionCheck, Judge, Limits, Verdict
from archer.judge.reader import KnownResult, ReadCache, Readers, Reading, Unreadable
from archer.runs.evaluation import open_grader
from archer.tasks import (
    CodeTask,
    Data,
    Reference,
    Sample,
    Suite,
    Variant,
    base,
    grading,
    open_task,
    reading,
)
from archer.tasks.base import user
from archer.tasks.grading import GradingOptions, grade
from archer.tasks.reader import open_readers, sources
from archer.tasks.reading import code, lineage, marked
from archer.tasks.reading.operations import OPERATIONS
from conftest import shared
from tasks import naive_reading as naive
from tasks.bombs import BOMBS, ENDLESS, FLAT, SLOW_TEXTS

DRAWN = 10_000
PROMPT = 'import math\n\n\ndef f(x: int) -> int:\n    """ Double x. """\n'
PIECES = (
    *("def ", "def\t", "def\n", "f", "f(", "f (", "(x)", "):", "):\n", ":\n", ":", "\n", " ", "\t"),
    *("```", "```python", "\n```", "``", "    return x", "<answer>", "</answer>", "<answer", "7"),
    "-",
    *("/", "03", "\\boxed{", "{", "}", "\\frac", "\u2028", "\x0b", "\u00a0", "deff", "main", "g"),
)


def drawn(count: int) -> Iterator[str]:
    random = Random(0)
    for _ in range(count):
        yield "".join(random.choices(PIECES, k=random.randrange(24)))


def assert_equal_to_the_naive(text: str) -> None:
    assert code.mbpp_published(text, "f") == naive.mbpp_published(text, "f")
    assert code.humaneval_published(text, PROMPT, "f") == naive.humaneval_published(
        text, PROMPT, "f"
    )
    assert code.livecodebench_published(text) == naive.livecodebench_published(text)
    assert lineage._tagged(text) == naive.tagged(text)
    assert bool(lineage.QUOTIENT.fullmatch(text)) == naive.is_quotient(text)
    assert marked.last_box(text) == naive.last_box(text)


def test_drawn_texts_are_read_as_by_the_published_expressions() -> None:
    for text in drawn(DRAWN):
        assert_equal_to_the_naive(text)


@pytest.mark.parametrize("name", ["mbpp", "humaneval", "livecodebench-samples", "math500"])
def test_references_are_read_as_by_the_published_expressions(name: str) -> None:
    task = open_task(name, Data(shared("data")))
    rows = {sample.id: sample.row for sample in task.samples()}
    for reference in task.references():
        for text in (
            reference.text,
            f"{reference.text}\n```\n",
            f"```python\n{reference.text}\n```",
        ):
            row: Any = rows[reference.id]
            assert_equal_to_the_naive(text)
            if name == "humaneval":
                facts = (row["prompt"], row["entry_point"])
                assert code.humaneval_published(text, *facts) == naive.humaneval_published(
                    text, *facts
                )
            if name == "mbpp":
                entry = re.findall(r"(\w+)\s*\(", row["test_list"][0])[-1]
                assert code.mbpp_published(text, entry) == naive.mbpp_published(text, entry)


@pytest.mark.parametrize("name", SLOW_TEXTS)
def test_a_long_text_takes_no_longer_than_its_length(name: str) -> None:
    """The published expressions take minutes to hours for most of these."""
    operation, text, facts = SLOW_TEXTS[name]
    began = time.process_time()
    OPERATIONS[operation](text, **facts)
    assert time.process_time() - began < 5


@pytest.fixture(scope="module")
def readers() -> Iterator[Readers]:
    """With a third of the usual time, for quick tests."""
    with Readers(Reading(modules=sources(), seconds=1.0), 2) as opened:
        yield opened


def outcome_of_reading(readers: Readers, text: str) -> str:
    try:
        readers.read("mbpp_repaired", text, name="f")
    except Unreadable as fault:
        return fault.verdict.outcome
    return "read"


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_its_own_verdict(readers: Readers, name: str) -> None:
    """Whatever looking at it does, this process stays small and the next text is read.

    On a busy machine any of them may run into the limit on time; that is a verdict on it alone as well.
    """
    text, outcomes = BOMBS[name]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert outcome_of_reading(readers, text) in (*outcomes, "timeout")
    assert readers.read("last_function", "def g(): pass", otherwise="c") == "g"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 150 << 10


def test_only_a_small_part_of_a_confined_reader_is_visible_from_inside() -> None:
    """What reads is confined as programs are: no files of others, no network, no processes."""
    probe = (
        "import os, socket\n"
        "def tried(action):\n"
        "    try:\n        action()\n    except OSError as e:\n        return type(e).__name__\n"
        "    return 'done'\n"
        "def look(text):\n"
        "    return [tried(lambda: open('/etc/passwd')), tried(lambda: socket.socket()),\n"
        "            tried(os.fork), tried(lambda: os.kill(1, 0) if os.getpid() != 1 else 1 / 1)]\n"
        "OPERATIONS = {'look': look}\n"
    )
    with Readers(Reading(modules={"operations": probe}), 1) as opened:
        if opened.tier == "F":
            pytest.skip("nothing confines here")
        assert "done" not in opened.read("look", "")[:3]


def test_a_text_that_takes_for_ever_gets_the_time_limit_and_the_next_a_new_process() -> None:
    modules = {
        "operations": "OPERATIONS = {'spin': lambda t: [0 for _ in iter(int, 1)] if t else 1}"
    }
    with Readers(Reading(modules=modules, seconds=0.2), 1) as opened:
        began = time.monotonic()
        with pytest.raises(Unreadable, match=r"within 0\.2 s") as caught:
            opened.read("spin", "x")
        assert caught.value.verdict.outcome == "timeout"
        assert time.monotonic() - began < 5
        assert opened.read("spin", "") == 1


@pytest.mark.parametrize(
    ("source", "outcome", "reason"),
    [
        ("import os, signal\ndef go(t): os.kill(os.getpid(), 9) or 1 / 0", "fail", "ZeroDivision"),
        ("import os\ndef go(t): os._exit(3)", "crash", "exit code 3"),
        ("import ctypes\ndef go(t): ctypes.string_at(0)", "crash", "SIGSEGV"),
        ("def go(t): raise ValueError('a\\nb')", "fail", "ValueError"),
        ("def go(t): return 'x' * (20 << 20)", "fail", "bytes"),
        ("def go(t): return bytearray(1 << 30)", "fail", "MemoryError"),
        ("def go(t): return object()", "fail", "TypeError"),
    ],
)
def test_every_end_of_a_reader_is_a_verdict(source: str, outcome: str, reason: str) -> None:
    table = "\nOPERATIONS = {'go': go, 'well': lambda t: t}\n"
    with Readers(Reading(modules={"operations": source + table}), 1) as opened:
        with pytest.raises(Unreadable) as caught:
            opened.read("go", "")
        if "os.kill" not in source:  # the first process of a namespace cannot kill itself
            assert (caught.value.verdict.outcome, reason in str(caught.value)) == (outcome, True)
        assert opened.read("well", "text \udc80 \u2028 \0") == "text \udc80 \u2028 \0"


def test_what_texts_leave_behind_is_not_the_fault_of_the_next() -> None:
    """Each leaves something: the process is replaced before there is no room for anybody else."""
    source = (
        "import itertools\ncounted, kept = itertools.count(), []\n"
        "def leave(t): return kept.append(bytearray(int(t) << 20)) or next(counted)\n"
        "OPERATIONS = {'leave': leave}\n"
    )
    with Readers(Reading(modules={"operations": source}, memory_bytes=256 << 20), 1) as opened:
        assert [opened.read("leave", "1") for _ in range(3)] == [0, 1, 2]
        assert [opened.read("leave", f"{100 + n}") for n in range(4)] == [3, 0, 0, 0]


def test_readers_work_side_by_side(readers: Readers) -> None:
    """One text that never ends does not hold up another."""
    started = threading.Event()

    def slow() -> None:
        started.set()
        with pytest.raises(Unreadable):
            readers.read("mbpp_repaired", BOMBS[ENDLESS][0], name="side_by_side")

    thread = threading.Thread(target=slow)
    thread.start()
    started.wait()
    assert readers.read("last_function", "def g(): pass", otherwise="c") == "g"
    assert thread.is_alive()
    thread.join()


def test_a_text_over_the_cap_is_refused(readers: Readers) -> None:
    with pytest.raises(Unreadable, match="over the cap"):
        readers.read("last_function", "#" * (17 << 20), otherwise="c")


def test_the_modules_that_are_sent_are_all_that_there_are() -> None:
    folder = Path(reading.__file__).parent
    assert set(sources()) == {path.stem for path in folder.glob("*.py")} - {"__init__"}


@pytest.mark.parametrize("name", ["mbpp", "humaneval", "pocket", "finqa", "pubmedqa", "math500"])
def test_no_grader_reads_a_completion_in_its_own_process(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the table of operations taken away here, everything is still graded."""
    root = shared("data")
    task = open_task(name, Data(root))
    given = [(sample, "The answer is 1.\n```python\nx = 1\n```") for sample in task.samples()[:2]]

    def forbidden(operation: str, text: str, /, **facts: Any) -> Any:
        raise AssertionError(f"{operation} in the process of the grader")

    task.read = forbidden
    monkeypatch.setattr(base, "read_here", forbidden)
    report = grade(task, given)
    assert len(report.rows) == 2
    assert report.unjudged == 0


def graded_among_bombs(name: str, bombs: list[str]) -> list[str]:
    """The outcomes of bombs and of references in turn."""
    task = open_task(name, Data(shared("data")))
    right = {str(each.id): each.text for each in task.references()}
    samples = [each for each in task.samples() if str(each.id) in right][: 2 * len(bombs)]
    texts = [text for bomb in bombs for text in (f"{bomb}\n```", None)]
    given = [
        (sample, f"```python\n{right[str(sample.id)]}\n```" if text is None else text)
        for sample, text in zip(samples, texts, strict=True)
    ]
    report = grade(task, given, GradingOptions(workers=2))
    assert report.unjudged == 0
    return [row.repaired.outcome for row in report.rows]


@pytest.mark.parametrize(
    ("name", "bombs"),
    [
        ("mbpp", FLAT),
        *(
            pytest.param(name, BOMBS, marks=pytest.mark.slow)
            for name in ("mbpp", "humaneval", "pocket", "livecodebench-samples")
        ),
    ],
)
def test_bombs_among_completions_get_their_verdicts_and_the_others_theirs(
    name: str, bombs: Iterable[str]
) -> None:
    outcomes = graded_among_bombs(name, [BOMBS[bomb][0] for bomb in bombs])
    assert "pass" not in outcomes[0::2]
    assert set(outcomes[1::2]) == {"pass"}


PEAK = """
import sys
from archer.tasks import Data, open_task
from archer.tasks.grading import GradingOptions, grade
from judge.runner import peak_mib
from tasks.bombs import BOMBS
task = open_task("pocket", Data())
given = list(zip(task.samples(), [text for text, _ in BOMBS.values()]))
report = grade(task, given, GradingOptions(workers=2))
assert report.unjudged == 0, report.rows
sys.stdout.write(str(peak_mib()))
"""


@pytest.mark.slow
def test_the_grading_process_stays_small_over_all_bombs() -> None:
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-c", PEAK]
    done = subprocess.run(command, cwd=tests, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 400


def test_an_unreadable_completion_has_no_program_and_no_answer(readers: Readers) -> None:
    task = open_task("mbpp", Data(shared("data"))).reading_by(readers.read)
    text = "#" * (17 << 20)
    assert grading.extracted_or_nothing(task, text, task.samples()[0]) == ""


NEVER_ENDING = "def f(x):\n    while True: x = 1\n"
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
        if check.program.startswith(NEVER_ENDING.rstrip()):
            assert isinstance(check, FunctionCheck)
            counted[check.test.partition("# ")[2]] += 1
        return once(self, check)

    monkeypatch.setattr(Judge, "_grade_once", count)
    return counted


def test_an_endless_completion_runs_alone_once(runs: Counter[str]) -> None:
    task = Five(Data())
    honest = "def f(x):\n    return x + 1\n"
    texts = [NEVER_ENDING, honest, NEVER_ENDING]
    report = grade(task, list(zip(task.samples(), texts, strict=True)), GradingOptions(workers=1))
    assert [row.repaired.outcome for row in report.rows] == ["timeout", "pass", "timeout"]
    assert {row.published.outcome for row in report.rows[::2]} == {"timeout"}
    assert runs == {"extended repaired": 4, "extended as_published": 2, "clean": 2}


def test_an_endless_completion_of_a_run_runs_alone_once(runs: Counter[str]) -> None:
    task = Five(Data())
    with open_grader(task) as grader:
        record = grader.record(task.samples()[0], NEVER_ENDING)
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
