"""Samples, prompts and checks against the data: sizes, order, exact texts, known faults."""

import ast
import base64
import hashlib
import json
import pickle
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archer.errors import BadRequest
from archer.judge import FunctionCheck, Judge, StdinCheck
from archer.tasks import TASKS, CodeTask, Data, Task, open_task
from archer.tasks.base import Sample
from archer.tasks.grading import OneCompletion, verdict_on
from archer.tasks.livecodebench import LiveCodeBench, LiveCodeBenchSamples
from archer.tasks.mbpp import entry_point, published_entry_point
from archer.tasks.sources import DataFile
from conftest import shared

SIZES = {
    "humaneval": 164,
    "humaneval-et": 164,
    "mbpp": 427,
    "mbpp-et": 427,
    "livecodebench-samples": 400,
    "math500": 500,
    "finqa": 1147,
    "pubmedqa": 1000,
}


@pytest.fixture(scope="module")
def data() -> Data:
    return Data(shared("data"))


def content(task: Task, position: int = 0) -> str:
    sample = task.samples()[position]
    assert [message["role"] for message in sample.messages] == ["user"]
    return sample.messages[0]["content"]


@pytest.mark.parametrize("name", SIZES)
def test_sizes_ids_and_references(name: str, data: Data) -> None:
    task = open_task(name, data)
    ids = [sample.id for sample in task.samples()]
    assert len(ids) == len({str(key) for key in ids}) == SIZES[name]
    assert {reference.id for reference in task.references()} <= set(ids)
    assert task.name == name
    assert task.version


def test_an_unknown_task_lists_all() -> None:
    with pytest.raises(BadRequest, match=", ".join(TASKS)):
        open_task("humanevil")


def test_the_prompt_of_humaneval(data: Data) -> None:
    task = open_task("humaneval", data)
    sample = task.samples()[0]
    prompt = sample.row["prompt"]
    assert sample.id == "HumanEval/0"
    assert content(task) == (
        "Write a solution to the following problem and make sure that it passes the tests:\n"
        f"```python\n{prompt}\n```"
    )
    assert sample.prefix == f"Here is the completed function:\n```python\n{prompt}\n"


def test_the_prompt_of_mbpp(data: Data) -> None:
    task = open_task("mbpp", data)
    assert task.samples()[0].id == 2
    assert task.samples()[0].prefix == ">>> Code:\n```python\n"
    assert content(task) == (
        "You are an expert Python programmer. Please write a python function to solve the "
        "following problem:\n>>> Problem:\nWrite a function to find the shared elements from the "
        "given two lists.\n>>> Test Cases:\n"
        "assert set(similar_elements((3, 4, 5, 6),(5, 7, 4, 10))) == set((4, 5))\n"
        "assert set(similar_elements((1, 2, 3, 4),(5, 4, 3, 7))) == set((3, 4))\n"
        "assert set(similar_elements((11, 12, 14, 13),(17, 15, 14, 13))) == set((13, 14))\n"
    )


def test_the_prompts_of_livecodebench(data: Data) -> None:
    task = open_task("livecodebench-samples", data)
    first = task.samples()[0]
    assert first.prefix == ""
    assert content(task).startswith(
        "You will be given a question (problem specification) and will generate a correct Python "
        "program that matches the specification and passes all tests. You will NOT return anything "
        f"except for the program.\n\nQuestion:\n{first.row['question_content']}\nRead the inputs "
    )
    assert content(task).endswith("to STDOUT.\n```python\n# YOUR CODE HERE\n```\n\n")
    position = next(n for n, s in enumerate(task.samples()) if s.row["starter_code"])
    starter = task.samples()[position].row["starter_code"]
    assert content(task, position).endswith(
        "You will use the following starter code to write the solution to the problem and enclose "
        f"your code within delimiters.\n```python\n{starter}\n```\n\n"
    )


def test_the_prompt_of_math500(data: Data) -> None:
    task = open_task("math500", data)
    sample = task.samples()[0]
    assert sample.prefix == "<reasoning>"
    assert content(task) == (
        "You are a math expert. You will be given a question to solve. Solve it step by step. Wrap "
        "the final answer in a \\boxed{}.\nRespond in the following format:\n<reasoning>\nYour "
        'reasoning here\n</reasoning>\n<answer>\n\\boxed{...}\n</answer>" \n\n\n'
        f"{sample.row['problem']}"
    )


def test_the_prompts_of_finqa_and_pubmedqa_hide_the_answer(data: Data) -> None:
    finqa, pubmedqa = open_task("finqa", data), open_task("pubmedqa", data)
    sample = finqa.samples()[0]
    assert "\n | amount ( in millions )\n2014 net revenue | $ 5735\n" in content(finqa)
    assert content(finqa).endswith(f"Question: {sample.row['question']}")
    assert all(sample.row["LONG_ANSWER"] not in content(pubmedqa) for sample in pubmedqa.samples())
    assert pubmedqa.samples()[0].prefix == "Answer:"


def test_the_release_mistakes_the_entry_point_of_seven_problems(data: Data) -> None:
    rows = [sample.row for sample in open_task("mbpp", data).samples()]
    wrong = {row["task_id"] for row in rows if entry_point(row) != published_entry_point(row)}
    assert wrong == {2, 7, 111, 140, 232, 596, 640}


@pytest.mark.parametrize(("name", "tests", "clean"), [("humaneval", 164, 164), ("mbpp", 427, 374)])
def test_one_program_is_checked_on_base_and_extended(
    name: str, tests: int, clean: int, data: Data
) -> None:
    task = open_task(name, data)
    assert isinstance(task, CodeTask)
    assert task.suites == ("base", "extended")
    samples = task.samples()
    checked = [task.checks(sample, "", "extended", "repaired") for sample in samples]
    assert sum(map(len, checked)) == tests
    assert sum(bool(task.clean_checks(sample, "", "extended")) for sample in samples) == clean
    assert all(task.clean_checks(sample, "", "base") is None for sample in samples)
    for sample in samples[:20]:
        (check,) = task.checks(sample, "", "base", "repaired")
        assert isinstance(check, FunctionCheck)
        assert ast.parse(check.test).body


def test_humaneval_tests_the_last_function_as_published(data: Data) -> None:
    task = open_task("humaneval", data)
    assert isinstance(task, CodeTask)
    sample = task.samples()[0]
    name = sample.row["entry_point"]
    program = f"def {name}(a, b): ...\ndef helper(): ...\ndef main(): ..."
    tested = []
    for variant, source in (("repaired", program), ("as_published", program), ("as_published", "")):
        (check,) = task.checks(sample, source, "base", variant)  # type: ignore[arg-type]
        assert isinstance(check, FunctionCheck)
        tested.append(check.entry_point)
    assert tested == [name, "helper", "candidate"]


def made_row(number: int, function: str | None, tests: list[tuple[str, str]]) -> dict[str, Any]:
    kind = "stdin" if function is None else "functional"
    cases = [{"input": i, "output": o, "testtype": kind} for i, o in tests]
    packed = base64.b64encode(zlib.compress(pickle.dumps(json.dumps(cases[1:])))).decode()
    return {
        "question_id": f"made_{number}",
        "question_content": "Double it.",
        "starter_code": "" if function is None else "class Solution:",
        "public_test_cases": json.dumps(cases[:1]),
        "private_test_cases": packed,
        "metadata": json.dumps({} if function is None else {"func_name": function}),
    }


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LiveCodeBench:
    """The real task over two made problems."""
    rows = [
        made_row(1, None, [("1\n", "2\n"), ("4\n", "8")]),
        made_row(2, "double", [("1\n[2]", "[1, 4]"), ('3\n["x"]', '[3, "xx"]')]),
    ]
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    file = DataFile("livecodebench/test.jsonl", hashlib.sha256(content).hexdigest(), None)
    (tmp_path / "livecodebench").mkdir()
    (tmp_path / file.path).write_bytes(content)
    monkeypatch.setattr(LiveCodeBench, "files", (file,))
    return LiveCodeBench(Data(tmp_path))


def test_livecodebench_with_hidden_tests(made: LiveCodeBench) -> None:
    stdin, method = made.samples()
    programs = [
        (stdin, "print(2 * int(input()))", "pass"),
        (stdin, "for line in sys.stdin:\n    print(2 * int(line))", "pass"),
        (stdin, "if __name__ == '__main__':\n    print(2 * int(open(0).read()))", "pass"),
        (stdin, "input()\nprint(2)", "fail"),
        (
            method,
            "class Solution:\n    def double(self, a, b):\n        return a, 2 * b[0]",
            "pass",
        ),
        (method, "def double(a, b):\n    return [a, 2 * b[0]]", "pass"),
        (method, "class Solution:\n    def double(self, a, b):\n        return [1, 4]", "fail"),
        (method, "x =", "fail"),
    ]
    with Judge(made.limits, workers=1) as judge:
        found = [
            verdict_on(
                OneCompletion(judge), made.checks(sample, program, "base", "repaired")
            ).outcome
            for sample, program, _ in programs
        ]
    assert found == [outcome for _, _, outcome in programs]


def test_livecodebench_says_which_test_failed(made: LiveCodeBench) -> None:
    stdin, _ = made.samples()
    checks = made.checks(stdin, "input()\nprint(2)", "base", "repaired")
    assert [type(check) for check in checks] == [StdinCheck, StdinCheck]
    with Judge(made.limits, workers=1) as judge:
        assert verdict_on(OneCompletion(judge), checks).reason.startswith("Test 2 of 2: ")
        assert verdict_on(OneCompletion(judge), ()).outcome == "fail"


HEAD = "import numpy as np\n"


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(LiveCodeBenchSamples.limits, workers=1, packages=("numpy",)) as opened:
        yield opened


@pytest.mark.parametrize(
    ("answer", "expected", "right"),
    [
        ("np.int64(3)", "3", True),
        ("np.int64(3)", "4", False),
        ("np.bool_(True)", "true", True),
        ("np.float64(0.5)", "0.5", True),
        ("np.float32(0.5)", "0.5", True),
        ("np.uint8(200)", "200", True),
        ("np.array(7)", "7", True),
        ("[np.int64(1), np.int32(2)]", "[1, 2]", True),
        ("(np.int64(1), 2)", "[1, 2]", True),
        ("[(1, 2)]", "[[1, 2]]", False),
        ("{'a': np.int64(1)}", '{"a": 1}', True),
        ("np.str_('a')", '"a"', True),
        ("np.array([1, 2])", "[1, 2]", False),
        ("list(np.array([1, 2]))", "[1, 2]", True),
        ("np.datetime64('2020-01-01')", "1", False),
        ("np.timedelta64(1, 'ns')", "1", False),
        ("np.longdouble(1)", "1", False),
        ("True", "1", True),
        ("1.0", "1", True),
        ("float('nan')", "1", False),
        ("__import__('collections').OrderedDict(b=1, a=2)", '{"a": 2, "b": 1}', True),
        ("__import__('collections').Counter('aab')", '{"a": 2, "b": 1}', True),
        ("__import__('collections').Counter(a=1, b=0)", '{"a": 1}', False),
        ("__import__('collections').namedtuple('P', 'x y')(1, 2)", "[1, 2]", True),
        ("range(2)", "[0, 1]", False),
        ("{1, 2}", "[1, 2]", False),
        ("None", "null", True),
    ],
)
def test_what_equals_what(judge: Judge, answer: str, expected: str, right: bool) -> None:
    row = {"func_name": "solve", "sample_tests": [{"input": "1", "output": expected}]}
    program = f"{HEAD}class Solution:\n    def solve(self, x):\n        return {answer}\n"
    task = LiveCodeBenchSamples(Data())
    checks = task.checks(Sample("x", (), "", row), program, "base", "repaired")
    assert verdict_on(OneCompletion(judge), checks).outcome == ("pass" if right else "fail")
