r"""MATH-500: the lineage's normal forms, math-verify in its own process, and where they differ."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.tasks import Data, Sample
from archer.tasks.math500 import Algebra, Math500
from archer.tasks.reading.lineage import lineage_answer, normalised, same_in_lineage


@pytest.fixture(scope="module")
def comparison() -> Iterator[Algebra]:
    with Algebra() as opened:
        yield opened


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("\\dfrac12", "\\frac{1}{2}"),
        ("\\tfrac 1{72}", "\\frac1{72}"),
        ("\\frac1{72}", "\\frac{1}{72}"),
        ("\\frac{1}{2}", "\\frac{1}{2}"),
        ("3/4", "\\frac{3}{4}"),
        ("03/4", "03/4"),
        ("a/b", "a/b"),
        ("0.5", "\\frac{1}{2}"),
        (".5", "\\frac{1}{2}"),
        ("x = 5", "5"),
        ("abc = 5", "abc=5"),
        ("\\sqrt3", "\\sqrt{3}"),
        ("90^\\circ", "90"),
        ("\\$10\\%", "10"),
        ("5\\text{ cm}", "5"),
        ("5\\text{ cm}\\text{ or}", None),
        ("\\left( 3, 4 \\right)", "(3,4)"),
        ("", ""),
    ],
)
def test_normal_forms(text: str, form: str | None) -> None:
    expected = "\\frac{1}{72}" if form == "\\frac1{72}" else form
    assert normalised(text) == expected


@given(st.text(st.sampled_from("\\frac{}12 sqrt/.=x$%")))
def test_everything_equals_itself(text: str) -> None:
    assert same_in_lineage(text, text)


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("so \\boxed{\\frac{1}{2}}.", "\\frac{1}{2}"),
        ("\\boxed{1} then \\boxed{2}", "2"),
        ("$\\boxed 7$ is it", "7"),
        ("\\fbox{8}", "8"),
        ("\\boxed{cut off", ""),
        ("\\boxed", ""),
        ("<answer>\n9\n</answer>", "9"),
        ("nothing", "nothing"),
    ],
)
def test_extraction_of_the_lineage(response: str, answer: str) -> None:
    assert lineage_answer(response) == answer


@pytest.mark.parametrize(
    ("answer", "right", "in_lineage"),
    [
        ("1,000", "1000", False),
        ("Evelyn", "\\text{Evelyn}", False),
        ("C", "\\text{(C)}", False),
        ("(3, \\pi/2)", "(3,\\frac{\\pi}{2})", False),
        ("2k+2", "2(k+1)", False),
        ("0.5", "\\frac{1}{2}", True),
        ("\\dfrac{1}{2}", "\\frac{1}{2}", True),
    ],
)
def test_where_math_verify_knows_more(
    comparison: Algebra, answer: str, right: str, in_lineage: bool
) -> None:
    assert comparison.compare(answer, right).outcome == "pass"
    assert same_in_lineage(answer, right) == in_lineage


@pytest.mark.parametrize(("answer", "right"), [("[1,2]", "(1,2)"), ("98.99", "70\\sqrt{2}")])
def test_where_both_refuse(comparison: Algebra, answer: str, right: str) -> None:
    verdict = comparison.compare(answer, right)
    assert verdict.outcome == "fail"
    assert right.replace("\\", "\\\\") in verdict.reason
    assert not same_in_lineage(answer, right)


def test_a_hard_answer_runs_out_of_time_and_the_next_is_graded() -> None:
    with Algebra(seconds=2) as opened:
        assert opened.compare("9^{9^{9^{9^9}}}+x^{9^{99}}", "1").outcome == "timeout"
        assert opened.compare("2", "2").outcome == "pass"


def test_an_answer_that_ends_the_process_is_told_apart() -> None:
    with Algebra(seconds=20) as opened:
        verdict = opened.compare("9" * (18 << 20), "1")
        assert verdict.outcome == "fail"
        assert "over the cap" in verdict.reason
        assert opened.compare("2", "2").outcome == "pass"


def test_the_task_grades_both_ways() -> None:
    task = Math500(Data())
    sample = Sample("x", (), "", {"answer": "1000"})
    response = "Hence it is \\boxed{1,000}."
    answers = {v: task.extract(response, sample, v) for v in ("repaired", "as_published")}
    with task.grading() as grade:
        assert grade(sample, answers["repaired"], "repaired").outcome == "pass"
        assert grade(sample, answers["as_published"], "as_published").outcome == "fail"
        assert grade(sample, "1000", "as_published").outcome == "pass"
        assert "no marked answer" in grade(sample, "", "repaired").reason
    assert task.extract("The answer is $12$.", sample, "repaired") == "12"
    assert task.measures([(sample, ""), (sample, "1")])["without_answer"] == 0.5
