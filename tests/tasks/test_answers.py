"""FinQA and PubMedQA: what counts as an answer, and what counts as right."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.tasks import AnswerTask, Data, Sample, open_task
from archer.tasks.base import VARIANTS
from archer.tasks.finqa import FACTORS
from archer.tasks.reading.answers import finqa_accepted as accepted
from archer.tasks.reading.marked import last_box, marked_answer
from archer.tasks.reading.numbers import find_numbers


def answer_task(name: str) -> AnswerTask:
    task = open_task(name, Data())
    assert isinstance(task, AnswerTask)
    return task


def question(right: float | str) -> Sample:
    return Sample("q", (), "", {"exe_ans": right})


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("94", [94.0]),
        ("it was 94.", [94.0]),
        ("$ 1,234.5 million", [1234.5]),
        ("(1,234)", [-1234.0]),
        ("(-12)", [-12.0]),
        ("\u22124.4 %", [-0.044]),
        ("14.5 percent", [0.145]),
        ("14.5\\%", [0.145]),
        ("1.5e3", [1500.0]),
        ("3/4", [0.75]),
        ("\\frac{3}{4}", [0.75]),
        ("-$5", [-5.0]),
        ("$-5", [-5.0]),
        (".5", [0.5]),
        ("12,34", []),
        ("v2 x3", []),
        ("5/0", []),
        ("from 10 to 20", [10.0, 20.0]),
        ("1{,}000", [1000.0]),
    ],
)
def test_numbers_as_people_write_them(text: str, values: list[float]) -> None:
    assert [number.value for number in find_numbers(text)] == pytest.approx(values)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_is_read_as_it_is_printed(value: float) -> None:
    assert [number.written for number in find_numbers(repr(value))] == [value]


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("So 5 + 4 = 9. The answer is 9.", "9."),
        ("Answer: 7\nThe answer is: 8", "8"),
        ("<answer>\n3\n</answer>", "3"),
        ("\\boxed{1} or \\boxed{\\frac{1}{2}} or \\boxed{3", "\\frac{1}{2}"),
        ("\\fbox{4}", "4"),
        ("<answer>unfinished 6", "unfinished 6"),
        ("no mark 5", None),
    ],
)
def test_marked_answers(response: str, answer: str | None) -> None:
    assert marked_answer(response) == answer


def test_an_open_box_is_no_box() -> None:
    assert last_box("\\boxed{1") is None


@pytest.mark.parametrize(
    ("response", "right", "repaired", "published"),
    [
        ("The answer is 94.", 94.0, True, True),
        ("The answer is 94.5.", 94.0, True, True),
        ("The answer is 96.", 94.0, False, False),
        ("The answer is 14.46", 0.14464, True, False),
        ("The answer is 14.46%", 0.14464, True, True),
        ("The answer is 0.14464", 14.464, True, False),
        ("The answer is -94.", 94.0, False, False),
        ("The answer is 94, up from 12 in 2015.", 94.0, True, False),
        ("The answer is 100 - 6 = 94", 94.0, True, True),
        ("In 2015 it fell to (1,234)", -1234.0, True, True),
        ("nothing to see", 94.0, False, False),
        ("0", 0.0, True, True),
        ("0", 0.001, False, False),
        ("Yes, it did.", "yes", True, True),
        ("The answer is no, though yes was near.", "yes", False, False),
        ("not known", "no", False, False),
        ("1e999", 5.0, False, False),
    ],
)
def test_finqa(response: str, right: float | str, repaired: bool, published: bool) -> None:
    task, sample = answer_task("finqa"), question(right)
    found = [
        task.grade(sample, task.extract(response, sample, variant), variant).outcome == "pass"
        for variant in ("repaired", "as_published")
    ]
    assert found == [repaired, published]


def test_a_constant_answer_is_not_rewarded() -> None:
    assert not any(accepted("0", right, FACTORS) for right in (0.001, -0.3, 5.0, 1e-9))
    assert not accepted("1 or 2", 1.0, FACTORS)


def test_finqa_reports_the_strict_score() -> None:
    answered = [(question(0.5), "50"), (question(2.0), "2")]
    assert answer_task("finqa").measures(answered)["score_strict"] == 0.5


def abstract(label: str) -> Sample:
    return Sample("1", (), "", {"final_decision": label})


@pytest.mark.parametrize(
    ("response", "repaired", "published"),
    [
        (" yes", "yes", "yes"),
        ("Maybe. There is no clear sign.", "maybe", "maybe"),
        ("There was no difference. The answer is yes.", "yes", "no"),
        ("It cannot be known, not nowadays.", "", ""),
        ("\\boxed{NO}", "no", "no"),
    ],
)
def test_pubmedqa_labels(response: str, repaired: str, published: str) -> None:
    task, sample = answer_task("pubmedqa"), abstract("yes")
    assert task.extract(response, sample, "repaired") == repaired
    assert task.extract(response, sample, "as_published") == published


def test_pubmedqa_verdicts_and_measures() -> None:
    task = answer_task("pubmedqa")
    said = [("yes", "yes"), ("yes", "no"), ("no", "no"), ("maybe", "")]
    answered = [(abstract(right), answer) for right, answer in said]
    verdicts = [task.grade(sample, answer, "repaired") for sample, answer in answered]
    assert [verdict.outcome for verdict in verdicts] == ["pass", "fail", "pass", "fail"]
    assert "no is right" in task.grade(abstract("no"), "yes", "repaired").reason
    measures = task.measures(answered)
    assert measures["recall"] == {"yes": 0.5, "no": 1.0, "maybe": 0.0}
    assert measures["macro_f1"] == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
    assert measures["without_label"] == 0.25
    assert task.measures(answered[:1])["recall"]["maybe"] is None


@pytest.mark.parametrize(
    ("name", "row"), [("finqa", {"exe_ans": 1.0}), ("pubmedqa", {"final_decision": "yes"})]
)
@given(response=st.text())
def test_any_response_gets_a_verdict(name: str, row: dict[str, Any], response: str) -> None:
    task, sample = answer_task(name), Sample("x", (), "", row)
    for variant in VARIANTS:
        answer = task.extract(response, sample, variant)
        assert task.grade(sample, answer, variant).outcome in ("pass", "fail")
