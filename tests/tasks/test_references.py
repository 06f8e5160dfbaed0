"""References through the judge: what passes, and exactly what does not.

A sample of all suites here; the whole under the mark `slow`, which `make test-data` runs. Problems
whose tests take about as long as the limit may time out, and are told apart.
"""

import ast
import json
from collections.abc import Callable, Sequence
from functools import cache

import pytest

from archer.tasks import Data, Sample, Task, open_task
from archer.tasks.grading import GradingOptions, GradingReport, grade
from archer.tasks.reading.programs import parsed
from conftest import shared

HUMANEVAL_ET_FAULTY = {f"HumanEval/{n}" for n in (2, 38, 44, 50, 53, 151)}
HUMANEVAL_ET_SLOW = {f"HumanEval/{n}" for n in (39, 55, 63, 147)}
MBPP_SLOW = {123, 583}
ORIGINAL_FAULTY = {
    *(75, 83, 88, 99, 117, 123, 160, 395, 427, 437, 438, 444, 583, 593, 602, 640, 757),
}
SANITIZED_FAULTY = ORIGINAL_FAULTY | {
    *(16, 57, 61, 70, 101, 119, 125, 130, 137, 145, 164, 166, 167, 245, 270, 285, 296, 406, 433),
    *(434, 436, 452, 454, 457, 468, 471, 576, 586, 597, 617, 620, 626, 628, 633, 643, 721, 734),
    *(737, 743, 746, 747, 751, 756, 760, 763, 767, 770, 777, 781, 782, 787, 793, 794, 797, 799),
    *(802, 803, 804),
}
WITHOUT_IMPORTS = {98, 124, 137, 139, 163, 233, 246, 248, 276, 300}
LCB_SLOW = {"abc311_e", "abc328_e"}

Given = list[tuple[Sample, str]]


@cache
def task(name: str) -> Task:
    return open_task(name, Data(shared("data")))


def references(name: str, keep: Callable[[int, str | int], bool] = lambda n, key: True) -> Given:
    known = {sample.id: sample for sample in task(name).samples()}
    return [
        (known[each.id], each.text)
        for n, each in enumerate(task(name).references())
        if keep(n, each.id)
    ]


def graded(name: str, given: Given, *, raw: bool = True) -> GradingReport:
    report = grade(task(name), given, GradingOptions(raw=raw))
    assert report.unjudged == 0
    return report


def failing(
    report: GradingReport, slow: set[str] | set[int], *, published: bool = False
) -> set[str | int]:
    """Ids that do not pass, without those of the slow ones that timed out."""
    verdicts = {row.id: row.published if published else row.repaired for row in report.rows}
    late = {key for key, verdict in verdicts.items() if verdict.outcome == "timeout"}
    assert late <= slow, f"not known to be slow: {late - slow}"
    return {key for key, verdict in verdicts.items() if verdict.outcome != "pass"} - late


def test_a_sample_of_humaneval() -> None:
    """With those whose prompts have helpers that the tests use."""
    kept = {32, 33, 38, 50}
    report = graded("humaneval", references("humaneval", lambda n, key: n % 12 == 2 or n in kept))
    assert report.score == report.score_as_published == 1.0
    assert report.tier is not None


def test_a_sample_of_humaneval_et() -> None:
    kept = {"HumanEval/2", "HumanEval/38", "HumanEval/151"}
    given = references("humaneval-et", lambda n, key: n % 40 == 5 or key in kept)
    report = graded("humaneval-et", given)
    assert failing(report, set()) == failing(report, set(), published=True) == kept
    assert report.details["score_clean"] == 1.0
    assert report.details["n_clean"] == len(given)


def test_a_sample_of_mbpp() -> None:
    kept = {2, 56, 98, 126, 140, 232, 596, 640}
    report = graded("mbpp", references("mbpp", lambda n, key: n % 30 == 1 or key in kept))
    assert report.score == 1.0
    assert failing(report, set(), published=True) == {98}


def test_a_sample_of_mbpp_et() -> None:
    kept = {16, 75, 88, 452, 760}
    sound = references("mbpp-et", lambda n, key: n % 60 == 0 and key not in SANITIZED_FAULTY)
    report = graded("mbpp-et", sound + references("mbpp-et", lambda n, key: key in kept))
    assert failing(report, set()) == kept
    assert report.details["score_clean"] == 1.0
    assert report.details["n_clean"] == len(report.rows) - 2


def test_a_sample_of_livecodebench() -> None:
    given = references("livecodebench-samples", lambda n, key: n % 30 == 0 and key not in LCB_SLOW)
    assert {sample.row["func_name"] is None for sample, _ in given} == {True, False}
    assert graded("livecodebench-samples", given).score == 1.0


def test_a_sample_of_math500() -> None:
    report = graded("math500", references("math500", lambda n, key: n % 10 == 0))
    assert report.score == report.score_as_published == 1.0
    assert report.tier is None


@pytest.mark.parametrize(("name", "size"), [("finqa", 1147), ("pubmedqa", 1000)])
def test_all_right_answers_are_right(name: str, size: int) -> None:
    given = references(name)
    report = graded(name, given)
    assert len(report.rows) == size
    assert report.score == report.score_as_published == 1.0
    told = [(sample, f"Let me see. The answer is {text}.") for sample, text in given]
    assert graded(name, told, raw=False).score == 1.0


@pytest.mark.parametrize(("answer", "right"), [("yes", 552), ("no", 338), ("maybe", 110)])
def test_a_constant_answer_gets_its_share_of_pubmedqa(answer: str, right: int) -> None:
    report = graded("pubmedqa", [(sample, answer) for sample in task("pubmedqa").samples()])
    assert report.score == right / 1000
    assert report.details["macro_f1"] < 0.25


def test_answers_of_the_annotators_of_finqa() -> None:
    """Most differ from the computed value by the factor of a percentage."""
    samples = task("finqa").samples()
    numeric = [s for s in samples if not isinstance(s.row["exe_ans"], str)]
    assert len(numeric) == 1127
    told = [(sample, str(sample.row["answer_normalised"])) for sample in samples]
    report = graded("finqa", told)
    assert report.score == pytest.approx(0.82, abs=0.01)
    assert report.score_as_published == pytest.approx(0.386, abs=0.02)
    zeros = graded("finqa", [(sample, "0") for sample in numeric])
    assert sum(row.repaired.outcome == "pass" for row in zeros.rows) == 2


@pytest.mark.slow
def test_all_of_humaneval() -> None:
    report = graded("humaneval", references("humaneval"))
    assert len(report.rows) == 164
    assert report.score == report.score_as_published == 1.0


def bodies(ending: str) -> Given:
    return [(s, s.row["canonical_solution"] + ending) for s in task("humaneval").samples()]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["body", "fence", "again"])
def test_humaneval_through_extraction(form: str) -> None:
    given = {
        "body": bodies(""),
        "fence": bodies("\n```\nDone."),
        "again": [(s, f"{text}\n```") for s, text in references("humaneval")],
    }[form]
    report = graded("humaneval", given, raw=False)
    assert report.score == report.score_as_published == 1.0


@pytest.mark.slow
def test_all_of_humaneval_et() -> None:
    report = graded("humaneval-et", references("humaneval-et"))
    assert failing(report, HUMANEVAL_ET_SLOW) == HUMANEVAL_ET_FAULTY
    assert report.details["n_clean"] == 164


@pytest.mark.slow
def test_all_of_mbpp() -> None:
    report = graded("mbpp", references("mbpp"))
    assert len(report.rows) == 427
    assert failing(report, MBPP_SLOW) == set()
    assert failing(report, MBPP_SLOW, published=True) == WITHOUT_IMPORTS


@pytest.mark.slow
def test_all_of_mbpp_et() -> None:
    assert len(SANITIZED_FAULTY) == 75
    report = graded("mbpp-et", references("mbpp-et"))
    assert failing(report, MBPP_SLOW) - MBPP_SLOW == SANITIZED_FAULTY - MBPP_SLOW


@pytest.mark.slow
def test_mbpp_et_with_the_original_programs() -> None:
    assert len(ORIGINAL_FAULTY) == 17
    path = shared("data", "mbpp_et", "MBPP_ET_sanitized427.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    known = {sample.id: sample for sample in task("mbpp-et").samples()}
    report = graded("mbpp-et", [(known[row["task_id"]], row["code"]) for row in rows])
    assert failing(report, MBPP_SLOW) - MBPP_SLOW == ORIGINAL_FAULTY - MBPP_SLOW


def passed(report: GradingReport, *, published: bool) -> int:
    """Passes, without the problems whose tests take about as long as the limit."""
    slow = MBPP_SLOW if report.task == "mbpp-et" else {123}
    verdicts = ((row.id, row.published if published else row.repaired) for row in report.rows)
    return sum(verdict.outcome == "pass" for key, verdict in verdicts if key not in slow)


def reprinted(text: str) -> str:
    tree = parsed(text)
    assert tree is not None
    return ast.unparse(tree)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rewrite", "published", "repaired"),
    [
        ("mbpp", str, 223, 426),
        ("mbpp", reprinted, 333, 426),
        ("mbpp-et", str, 200, 352),
        ("mbpp-et", reprinted, 288, 352),
    ],
)
def test_the_published_extraction_of_mbpp_loses_what_it_is_known_to_lose(
    name: str, rewrite: Callable[[str], str], published: int, repaired: int
) -> None:
    given = [(sample, f"{rewrite(text)}\n```") for sample, text in references(name)]
    report = graded(name, given, raw=False)
    assert passed(report, published=True) == published
    assert passed(report, published=False) == repaired


@pytest.mark.slow
def test_all_accepted_programs_of_livecodebench() -> None:
    report = graded("livecodebench-samples", references("livecodebench-samples"))
    assert len(report.rows) == 569
    assert failing(report, LCB_SLOW) == set()
    assert sum(row.repaired.outcome == "pass" for row in report.rows) >= 567


@pytest.mark.slow
@pytest.mark.parametrize("form", ["answer", "box", "solution"])
def test_all_of_math500(form: str) -> None:
    samples: Sequence[Sample] = task("math500").samples()
    given = {
        "answer": references("math500"),
        "box": [(sample, f"So \\boxed{{{sample.row['answer']}}}.") for sample in samples],
        "solution": [(sample, sample.row["solution"]) for sample in samples],
    }[form]
    report = graded("math500", given, raw=form == "answer")
    assert len(report.rows) == 500
    assert report.score == report.score_as_published == 1.0
