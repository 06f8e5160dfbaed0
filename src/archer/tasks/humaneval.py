"""HumanEval (164 problems) and HumanEval-ET, with the prompt and extraction of the Saber release."""

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property
from threading import Lock
from typing import Any, ClassVar

from archer.judge import Check, FunctionCheck, Limits
from archer.tasks.base import CodeTask, FromRows, Reference, Sample, Suite, Variant, user
from archer.tasks.sources import (
    HUMANEVAL,
    HUMANEVAL_ET,
    HUMANEVAL_ET_FAULTS,
    DataFile,
    ExtendedTests,
    read_extended,
)

PARSER = Lock()
"""Python 3.11 counts the depth of a tree for all threads together and raises if two parse at once."""
NO_FUNCTION = "candidate"
"""What the release tests where a program has no function at all."""


class HumanEval(FromRows, CodeTask):
    """The model continues the function whose head and docstring the prefix repeats."""

    name = "humaneval"
    metric = "pass@1"
    files: ClassVar[tuple[DataFile, ...]] = (HUMANEVAL,)
    limits = Limits(cpu_seconds=10, wall_seconds=20)
    suites: ClassVar[tuple[Suite, ...]] = ("base", "extended")

    @cached_property
    def _extended(self) -> dict[str, ExtendedTests]:
        return read_extended(
            self.data, HUMANEVAL_ET, "test_case_list", HUMANEVAL_ET_FAULTS, "canonical"
        )

    @staticmethod
    def sample(row: dict[str, Any]) -> Sample:
        code = f"```python\n{row['prompt']}\n"
        request = (
            "Write a solution to the following problem and make sure that it passes the tests:"
        )
        return Sample(
            row["task_id"],
            user(f"{request}\n{code}```"),
            f"Here is the completed function:\n{code}",
            row,
        )

    def references(self) -> Iterator[Reference]:
        for sample in self._samples:
            yield Reference(sample.id, sample.row["prompt"] + sample.row["canonical_solution"])

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        operation = "humaneval_repaired" if variant == "repaired" else "humaneval_published"
        prompt, name = sample.row["prompt"], sample.row["entry_point"]
        return str(self.read(operation, response, prompt=prompt, name=name))

    def checks(
        self, sample: Sample, program: str, suite: Suite, variant: Variant
    ) -> tuple[Check, ...]:
        row = sample.row
        tested = row["entry_point"]
        if variant == "as_published":
            tested = self.read("last_function", program, otherwise=NO_FUNCTION)
        if suite == "base":
            return (self._check(row, program, tested, row["test"]),)
        asserts = self._extended[str(sample.id)].asserts
        return (self._check(row, program, tested, _as_function(row["entry_point"], asserts)),)

    def clean_checks(self, sample: Sample, program: str, suite: Suite) -> tuple[Check, ...] | None:
        if suite == "base":
            return None
        name, asserts = sample.row["entry_point"], self._extended[str(sample.id)].clean()
        test = _as_function(name, asserts)
        return (self._check(sample.row, program, name, test),) if asserts else ()

    def _check(self, row: Any, program: str, tested: str, test: str) -> FunctionCheck:
        """The test has its own copy of the prompt's helpers; problem 33 calls the function by name."""
        source = f"{around(row['prompt'], row['entry_point'])}\n{test}"
        exposed = (row["entry_point"],)
        return FunctionCheck(program, tested, source, expose=exposed, limits=self.limits)


class HumanEvalET(HumanEval):
    """The same problems and completions, scored on the extended tests."""

    name = "humaneval-et"
    files: ClassVar[tuple[DataFile, ...]] = (HUMANEVAL, HUMANEVAL_ET, HUMANEVAL_ET_FAULTS)
    suites: ClassVar[tuple[Suite, ...]] = ("extended",)


def around(prompt: str, name: str) -> str:
    """All of a prompt but the function to be written, as source."""
    with PARSER:
        tree = ast.parse(prompt)
    return "\n".join(
        ast.unparse(node)
        for node in tree.body
        if not (isinstance(node, ast.FunctionDef) and node.name == name)
    )


def _as_function(name: str, asserts: Sequence[str]) -> str:
    """Asserts that call a function by name, as a `check` that is given this function."""
    lines = "".join(f"    {text}\n" for text in asserts)
    return f"def check({name}):\n{lines}"
