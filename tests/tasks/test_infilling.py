"""Infilling: every reference through its grader, seeded wrong answers, exact lines, clusters."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from random import Random

import pytest

from archer.judge import FunctionCheck
from archer.tasks import CodeTask, Data, Sample, Task, open_task
from archer.tasks.grading import GradingOptions, GradingReport, grade
from archer.tasks.infilling import filled, function_of
from conftest import shared

FILES = {
    "humaneval-single-line": (1033, 164),
    "humaneval-multi-line": (5815, 164),
    "humaneval-random-span": (1640, 164),
    "humaneval-random-span-light": (164, 164),
}
"""Rows and functions."""


@cache
def task(name: str) -> Task:
    return open_task(name, Data(shared("data")))


def graded(name: str, given: list[tuple[Sample, str]]) -> GradingReport:
    report = grade(task(name), given, GradingOptions())
    assert report.unjudged == 0
    return report


def middle(sample: Sample) -> str:
    assert sample.infill is not None
    return sample.infill.middle


def damaged(sample: Sample) -> str:
    """The reference with a character in it that no program may have."""
    text = middle(sample)
    first = len(text) - len(text.lstrip())
    at = Random(str(sample.id)).randint(first, first + len(text.strip()))
    return f"{text[:at]}\x00{text[at:]}"


@pytest.mark.parametrize("name", FILES)
def test_sizes_prefixes_and_clusters(name: str) -> None:
    rows, functions = FILES[name]
    samples = task(name).samples()
    assert len(samples) == len({sample.id for sample in samples}) == rows
    assert len({sample.cluster for sample in samples}) <= functions
    for sample in samples[::50]:
        row = sample.row
        assert sample.messages == ()
        assert filled(sample) == row["prompt"] + row["canonical_solution"] + row["suffix"]
        assert str(sample.id).split("/")[1:3] == str(sample.cluster).split("/")


def test_the_functions_behind_the_files() -> None:
    """Not all 164 have a line that can be taken out; statistics go by functions, not by rows."""
    counts = {name: len({each.cluster for each in task(name).samples()}) for name in FILES}
    assert counts == {
        "humaneval-single-line": 164,
        "humaneval-multi-line": 164,
        "humaneval-random-span": 164,
        "humaneval-random-span-light": 164,
    }
    assert len({each.cluster for each in task("santacoder-fim").samples()}) == 153


@pytest.mark.parametrize(
    ("name", "step"), [(name, rows // 12) for name, (rows, _) in FILES.items()]
)
def test_a_sample_of_references_and_of_wrong_answers(name: str, step: int) -> None:
    samples = task(name).samples()[::step]
    report = graded(name, [(each, middle(each)) for each in samples])
    assert report.score == report.score_as_published == 1.0
    assert report.tier is not None
    assert graded(name, [(each, damaged(each)) for each in samples[::2]]).score == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_all_references(name: str) -> None:
    report = graded(name, [(each, middle(each)) for each in task(name).samples()])
    assert len(report.rows) == FILES[name][0]
    assert {row.id for row in report.rows if row.repaired.outcome != "pass"} == set()


@pytest.mark.slow
def test_a_line_left_out_is_seldom_right() -> None:
    """Some functions do without one of their lines, which no test can tell."""
    name = "humaneval-single-line"
    report = graded(name, [(each, "\n") for each in task(name).samples()[::10]])
    assert report.score is not None
    assert report.score < 0.15


def test_some_random_spans_are_empty() -> None:
    assert sum(not middle(each) for each in task("humaneval-random-span").samples()) == 14


def test_helpers_of_a_test_are_its_own() -> None:
    """Problem 32 tests by a helper of its prompt; a program that redefines it gains nothing."""
    code = task("humaneval-single-line")
    assert isinstance(code, CodeTask)
    sample = next(each for each in code.samples() if each.cluster == "HumanEval/32")
    (check,) = code.checks(sample, "", "base", "repaired")
    assert isinstance(check, FunctionCheck)
    assert "def poly(" in check.test
    assert "def find_zero(" not in check.test


def test_many_threads_may_ask_for_checks_at_once() -> None:
    code = task("humaneval-single-line")
    assert isinstance(code, CodeTask)
    samples = code.samples()[:300]

    def checked(sample: Sample) -> str:
        (check,) = code.checks(sample, "", "base", "repaired")
        assert isinstance(check, FunctionCheck)
        return check.test

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(checked, samples)) == [checked(each) for each in samples]


def test_the_functions_of_ids() -> None:
    assert function_of("SingleLineInfilling/HumanEval/0/L3") == "HumanEval/0"
    assert function_of("humaneval-HumanEval_156_int_to_mini_roman.json-L33") == "HumanEval/156"


@pytest.mark.parametrize(
    ("response", "published", "repaired"),
    [
        ("x", True, True),
        ("    x\n    y", True, True),
        ("\nx", True, True),
        (" \nx", True, True),
        ("\n\nx", False, True),
        ("   \nx", False, True),
        ("x # done", False, False),
        ("", False, False),
        ("\n", False, False),
        ("y\nx", False, False),
    ],
)
def test_which_line_is_read(response: str, published: bool, repaired: bool) -> None:
    santacoder = task("santacoder-fim")
    sample = Sample("a", (), "", {"canonical_solution": "  x"})
    report = grade(santacoder, [(sample, response)], GradingOptions())
    assert report.score_as_published == published
    assert report.score == repaired


def test_all_lines_of_santacoder() -> None:
    samples = task("santacoder-fim").samples()
    assert len(samples) == 1043
    report = graded("santacoder-fim", [(each, middle(each)) for each in samples])
    assert report.score == report.score_as_published == 1.0
    assert graded("santacoder-fim", [(each, damaged(each)) for each in samples]).score == 0.0


def test_the_canvas_of_santacoder_is_the_program() -> None:
    """The prefix ends a line, and the answer ends its own."""
    for sample in task("santacoder-fim").samples():
        compile(filled(sample), str(sample.id), "exec")
        assert sample.prefix.endswith("\n")
