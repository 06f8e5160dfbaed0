"""Programs and answers in what models write: what counts as one, and what counts as right."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.tasks import AnswerTask, Data, Sample, open_task
from archer.tasks.base import VARIANTS
from archer.tasks.finqa import FACTORS
from archer.tasks.humaneval import HumanEval
from archer.tasks.livecodebench import LiveCodeBenchSamples
from archer.tasks.math500 import Algebra, Math500
from archer.tasks.mbpp import Mbpp
from archer.tasks.reading.answers import finqa_accepted as accepted
from archer.tasks.reading.lineage import lineage_answer, normalised, same_in_lineage
from archer.tasks.reading.marked import last_box, marked_answer
from archer.tasks.reading.numbers import find_numbers
from archer.tasks.reading.programs import first_good, implements, parsed, segments


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


PROMPT = 'import math\n\n\ndef f(x: int) -> int:\n    """ Double x. """\n'
HUMANEVAL = Sample("HumanEval/x", (), "", {"prompt": PROMPT, "entry_point": "f"})
MBPP = Sample(1, (), "", {"code": "def f(x):\n    return 2 * x", "test_list": ["assert f(1) == 2"]})
STDIN = Sample("a", (), "", {"func_name": None})
METHOD = Sample("b", (), "", {"func_name": "double"})


def run(program: str) -> dict[str, Any]:
    """What a trusted program of this file defines."""
    names: dict[str, Any] = {}
    exec(program, names)
    return names


@pytest.mark.parametrize(
    "response",
    [
        "    return 2 * x\n```",
        "    return 2 * x",
        "return 2 * x",
        "y = x + x\nreturn y\n```\nThat is all.",
        "y = x\n    if y:\n        y = 2 * x\n    return y",
        "    return math.floor(2 * x)\n\nThis works because it doubles.",
        "```python\ndef f(x):\n    return math.floor(2 * x)\n```",
        "Sure! Here it is:\n```python\ndef f(x: int) -> int:\n    return 2 * x\n```\nDone.",
        "def f(x):\n    return g(x)\n\ndef g(x):\n    return 2 * x\n```",
        "    return 2 * x\n```\n```python\nprint(f(2))\n```",
        "    return 2 * x\n\nif __name__ == '__main__':\n    print(f(",
    ],
)
def test_humaneval_repaired(response: str) -> None:
    program = HumanEval(Data()).extract(response, HUMANEVAL, "repaired")
    assert run(program)["f"](21) == 42


@pytest.mark.parametrize(
    ("response", "works"),
    [
        ("    return 2 * x\n```", True),
        ("    return 2 * x", True),
        ('def f(x):\n    """ Double. """\n    return 2 * x\n```', True),
        ("return 2 * x", False),
        ("Sure:\n```python\ndef f(x):\n    return 2 * x\n```", False),
    ],
)
def test_humaneval_as_published(response: str, works: bool) -> None:
    program = HumanEval(Data()).extract(response, HUMANEVAL, "as_published")
    assert program.startswith(PROMPT)
    tree = parsed(program)
    assert (tree is not None) == works
    assert not works or run(program)["f"](21) == 42


@pytest.mark.parametrize(
    "response",
    [
        "def f(x):\n    return 2 * x\n```",
        "def f(x):\n    return 2 * x",
        "import math\nTWO = 2\ndef g(x):\n    return TWO * x\ndef f(x) -> int:\n    return g(x)\n```",
        "def f(x) : return 2 * x\n```\nExplanation",
        "```python\ndef f(x):\n    return 2 * x\n```",
        "def f(x):\n    return 2 * x\n\n>>> Explanation: it doubles",
        "f = lambda x: 2 * x\n```",
        "def f(x):\n    return 2 * x\n\ndef unfinished(y):\n    return (y +",
    ],
)
def test_mbpp_repaired(response: str) -> None:
    program = Mbpp(Data()).extract(response, MBPP, "repaired")
    assert run(program)["f"](21) == 42


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("def f(x):\n    return 2 * x\n```\nmore", "def f(x):\n    return 2 * x"),
        ("import math\ndef f(x):\n    return 2\n```", "def f(x):\n    return 2"),
        ("def f(x):\n    return 2", "    ```python\n    def f(x):\n        return 2"),
        (
            "def f(x) -> int:\n    return 2\n```",
            "    ```python\n    def f(x) -> int:\n        return 2\n    ```",
        ),
    ],
)
def test_mbpp_as_published_keeps_its_faults(response: str, expected: str) -> None:
    assert Mbpp(Data()).extract(response, MBPP, "as_published") == expected


@pytest.mark.parametrize(
    ("response", "repaired", "published"),
    [
        ("```python\nprint(1)\n```", "print(1)", "print(1)"),
        ("```python\nprint(1)", "print(1)", "```python\nprint(1)"),
        ("print(1)", "print(1)", "print(1)"),
        ("First:\n```python\nprint(1)\n```\nBetter:\n```\nprint(2)\n```", "print(2)", "print(1)"),
        ("print(1)\n```", "print(1)", "print(1)\n```"),
        ("no program", "no program", "no program"),
    ],
)
def test_livecodebench(response: str, repaired: str, published: str) -> None:
    task = LiveCodeBenchSamples(Data())
    assert task.extract(response, STDIN, "repaired") == repaired
    assert task.extract(response, STDIN, "as_published") == published


def test_livecodebench_wants_the_method() -> None:
    solution = "class Solution:\n    def double(self, x):\n        return 2 * x"
    response = f"```python\n{solution}\n```\nUse it:\n```python\nprint(1)\n```"
    assert LiveCodeBenchSamples(Data()).extract(response, METHOD, "repaired") == solution


@pytest.mark.parametrize(
    ("name", "sample"),
    [("humaneval", HUMANEVAL), ("mbpp", MBPP), ("livecodebench-samples", METHOD)],
)
@given(response=st.text(st.sampled_from("def f(x):\n `python'\"\\\0()[]{}#="), max_size=200))
def test_extraction_never_fails(name: str, sample: Sample, response: str) -> None:
    task = open_task(name, Data())
    for variant in VARIANTS:
        assert isinstance(task.extract(response, sample, variant), str)


def test_deep_nesting_is_no_program() -> None:
    assert parsed("(" * 100_000) is None
    assert parsed("-" * 100_000 + "1") is None
    assert parsed("x = '\0'") is None


def test_a_name_is_implemented_by_more_than_a_docstring() -> None:
    assert not implements('def f():\n    """ Later. """', "f")
    assert not implements("def g():\n    return 1", "f")
    assert not implements("def f(:", "f")
    assert implements("async def f():\n    return 1", "f")


def test_segments_and_fall_back() -> None:
    assert segments("a\n```python\nb\n```\nc") == ["a", "b", "c"]
    assert first_good(["", "((("], lambda text: parsed(text) is not None) is None
