"""Which answers LiveCodeBench's rule takes for right: those that `==` of plain data does."""

from collections.abc import Iterator

import pytest

from archer.judge import Judge
from archer.tasks import Data
from archer.tasks.base import Sample
from archer.tasks.grading import OneCompletion, verdict_on
from archer.tasks.livecodebench import LiveCodeBenchSamples

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
