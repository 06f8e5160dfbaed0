"""LiveCodeBench release_v1 (400 problems), with hidden tests or with the statements' samples only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from archer.judge import Check, FunctionCheck, Limits, StdinCheck
from archer.judge.checks import MIB
from archer.tasks.base import CodeTask, FromRows, Reference, Sample, Suite, Variant, user
from archer.tasks.packed import read_tests
from archer.tasks.sources import LIVECODEBENCH, LIVECODEBENCH_ACCEPTED, LIVECODEBENCH_SAMPLES

MODULES = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random"),
    *("statistics", "itertools", "functools", "operator", "io", "sys", "json", "builtins"),
    "typing",
)
"""What every program may use without importing it: all their names, and the modules themselves."""
PRELUDE = "".join(f"from {name} import *\n" for name in MODULES) + (
    "".join(f"import {name}\n" for name in MODULES) + "sys.setrecursionlimit(50000)\n"
)
ENTRY_POINT = "archer_entry_point"
OPENING = (
    "You will be given a question (problem specification) and will generate a correct Python program "
    "that matches the specification and passes all tests. You will NOT return anything except for "
    "the program."
)
WITH_STARTER = (
    "You will use the following starter code to write the solution to the problem and enclose your "
    "code within delimiters."
)
WITH_STDIN = (
    "Read the inputs from stdin solve the problem and write the answer to stdout (do not directly "
    "test on the sample inputs). Enclose your code within delimiters as follows. Ensure that when "
    "the python program runs, it reads the inputs, runs the algorithm and writes output to STDOUT."
)
TEST = """
import json
def check(candidate):
    answer = candidate(*[json.loads(line) for line in {given!r}.split("\\n")])
    if isinstance(answer, tuple):
        answer = list(answer)
    assert answer == json.loads({expected!r})
"""


class LiveCodeBench(FromRows, CodeTask):
    """Graded on the public and the hidden tests of code_generation_lite."""

    name = "livecodebench"
    metric = "pass@1"
    files = (LIVECODEBENCH,)
    limits = Limits(cpu_seconds=6, wall_seconds=30, memory_bytes=1024 * MIB)
    """Per test. The official 6 seconds are counted as processor time, so that a busy machine costs no
    program its verdict; the wall clock only ends those that sleep."""
    packages = ("numpy",)
    """Accepted programs use it, and the official runner has it."""

    @staticmethod
    def sample(row: dict[str, Any]) -> Sample:
        starter = row["starter_code"]
        how, code = (WITH_STARTER, starter) if starter else (WITH_STDIN, "# YOUR CODE HERE")
        question = f"Question:\n{row['question_content']}\n"
        content = f"{OPENING}\n\n{question}{how}\n```python\n{code}\n```\n\n"
        return Sample(row["question_id"], user(content), "", row)

    def references(self) -> Iterator[Reference]:
        """Programs that the authors of the benchmark accepted."""
        for row in self.data.rows(LIVECODEBENCH_ACCEPTED):
            if row["graded"]:
                yield Reference(row["question_id"], row["code"])

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        if variant == "as_published":
            return str(self.read("livecodebench_published", response))
        function = self.function(sample.row)
        return str(self.read("livecodebench_repaired", response, function=function))

    def checks(
        self, sample: Sample, program: str, suite: Suite, variant: Variant
    ) -> tuple[Check, ...]:
        """One check per test: each has the whole time limit and a program without a past."""
        name = self.function(sample.row)
        source = PRELUDE + program
        return tuple(
            StdinCheck(source, ((test["input"], test["output"]),), self.limits)
            if name is None
            else self._call(source, name, test)
            for test in self.tests(sample.row)
        )

    def _call(self, source: str, name: str, test: Mapping[str, str]) -> FunctionCheck:
        target = f"Solution().{name}" if "class Solution" in source else name
        adapter = f"\n\ndef {ENTRY_POINT}(*given):\n    return {target}(*given)\n"
        source_of_test = TEST.format(given=test["input"], expected=test["output"])
        return FunctionCheck(source + adapter, ENTRY_POINT, source_of_test, (), self.limits)

    def tests(self, row: Mapping[str, Any]) -> list[dict[str, str]]:
        """The tests of a problem, unpacked when they are needed."""
        return read_tests(row["public_test_cases"]) + read_tests(row["private_test_cases"])

    def function(self, row: Mapping[str, Any]) -> str | None:
        """The method to be called, or None for a program that reads stdin."""
        found: str | None = json.loads(row["metadata"]).get("func_name")
        return found


class LiveCodeBenchSamples(LiveCodeBench):
    """Graded on the samples in the statements: an upper bound of the real score, and not called so."""

    name = "livecodebench-samples"
    metric = "samples_passed"
    files = (LIVECODEBENCH_SAMPLES,)

    def tests(self, row: Mapping[str, Any]) -> list[dict[str, str]]:
        found: list[dict[str, str]] = row["sample_tests"]
        return found

    def function(self, row: Mapping[str, Any]) -> str | None:
        found: str | None = row["func_name"]
        return found
