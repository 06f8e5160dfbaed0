"""Extraction of programs: each variant on what models really write."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.tasks import Data, Sample, open_task
from archer.tasks.base import VARIANTS
from archer.tasks.humaneval import HumanEval
from archer.tasks.livecodebench import LiveCodeBenchSamples
from archer.tasks.mbpp import Mbpp
from archer.tasks.reading.programs import first_good, implements, parsed, segments

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
