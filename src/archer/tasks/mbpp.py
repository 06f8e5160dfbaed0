"""MBPP (the 427 sanitized problems) and MBPP-ET, with the prompt and extraction of the Saber release."""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar

from archer.judge import Check, FunctionCheck, Limits
from archer.tasks.base import CodeTask, FromRows, Reference, Sample, Suite, Variant, user
from archer.tasks.reading.programs import called_names, functions, parsed
from archer.tasks.sources import (
    MBPP,
    MBPP_ET,
    MBPP_ET_FAULTS,
    DataFile,
    ExtendedTests,
    read_extended,
)

FENCE = "```python\n"
CALL = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)\s*\(")


class Mbpp(FromRows, CodeTask):
    """The model sees the problem and all its asserts and writes the function."""

    name = "mbpp"
    metric = "pass@1"
    files: ClassVar[tuple[DataFile, ...]] = (MBPP,)
    limits = Limits(cpu_seconds=10, wall_seconds=20)
    suites: ClassVar[tuple[Suite, ...]] = ("base", "extended")

    @cached_property
    def _extended(self) -> dict[str, ExtendedTests]:
        return read_extended(self.data, MBPP_ET, "test_list", MBPP_ET_FAULTS, "sanitized_code")

    @staticmethod
    def sample(row: dict[str, Any]) -> Sample:
        request = (
            "You are an expert Python programmer. "
            "Please write a python function to solve the following problem:"
        )
        tests = "\n".join(row["test_list"])
        content = f"{request}\n>>> Problem:\n{row['prompt'].strip()}\n>>> Test Cases:\n{tests}\n"
        return Sample(row["task_id"], user(content), f">>> Code:\n{FENCE}", row)

    def references(self) -> Iterator[Reference]:
        for sample in self._samples:
            yield Reference(sample.id, sample.row["code"])

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        if variant == "repaired":
            name, operation = entry_point(sample.row), "mbpp_repaired"
        else:
            name, operation = published_entry_point(sample.row), "mbpp_published"
        return str(self.read(operation, response, name=name))

    def checks(
        self, sample: Sample, program: str, suite: Suite, variant: Variant
    ) -> tuple[Check, ...]:
        """The release leaves the imports of the tests out."""
        if suite == "extended":
            extended = self._extended[str(sample.id)]
            return (self._check(program, extended.entry_point, extended.asserts),)
        row = sample.row
        imports = row["test_imports"] if variant == "repaired" else ()
        return (self._check(program, entry_point(row), (*imports, *row["test_list"])),)

    def clean_checks(self, sample: Sample, program: str, suite: Suite) -> tuple[Check, ...] | None:
        if suite == "base":
            return None
        extended = self._extended[str(sample.id)]
        asserts = extended.clean()
        return (self._check(program, extended.entry_point, asserts),) if asserts else ()

    def _check(self, program: str, name: str, lines: Sequence[str]) -> FunctionCheck:
        """Nothing but the function is the program's: what tests need of the library is their own."""
        return FunctionCheck(program, name, "\n".join(lines), expose=(), limits=self.limits)


class MbppET(Mbpp):
    """The same problems and completions, scored on the extended tests."""

    name = "mbpp-et"
    files: ClassVar[tuple[DataFile, ...]] = (MBPP, MBPP_ET, MBPP_ET_FAULTS)
    suites: ClassVar[tuple[Suite, ...]] = ("extended",)


def entry_point(row: Any) -> str:
    """The function under test: defined by the reference, and called by the tests."""
    called = called_names(row["test_list"])
    tree = parsed(row["code"])
    defined = [node.name for node in functions(tree)] if tree else []
    return next(name for name in defined if name in called)


def published_entry_point(row: Any) -> str:
    """What the release takes for it: the last name before a bracket in the first assert."""
    return str(CALL.findall(row["test_list"][0])[-1])
