"""Infilling: HumanEval-Infilling, judged on its tests, and SantaCoder-FIM, by the exact line.

The model is given the text before and behind a gap as it stands, without a chat. Published numbers differ
mostly by how long the gap is made: oracle lengths, fixed ones and searched ones are different protocols.
Rows that are cut from one function depend on each other; they share a cluster.
"""

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from archer.judge import Check, FunctionCheck, Limits, Verdict
from archer.tasks.base import (
    AnswerTask,
    CodeTask,
    FromRows,
    Infill,
    Reference,
    Sample,
    Suite,
    Variant,
)
from archer.tasks.humaneval import around
from archer.tasks.sources import INFILLING, SANTACODER, DataFile

FUNCTION = re.compile(r"HumanEval[/_]\d+")


class InfillingTask(FromRows, CodeTask):
    """One of the four files; the program is prefix, response and suffix, and nothing is extracted.

    The release allows 3 seconds; the limits here are those of HumanEval, whose verdicts do not depend on how
    busy the machine is.
    """

    metric = "pass@1"
    length = 64
    limits = Limits(cpu_seconds=10, wall_seconds=20)

    @staticmethod
    def sample(row: dict[str, Any]) -> Sample:
        infill = Infill(row["suffix"], row["canonical_solution"])
        return Sample(row["task_id"], (), row["prompt"], row, infill, function_of(row["task_id"]))

    def references(self) -> Iterator[Reference]:
        for sample in self._samples:
            yield Reference(sample.id, filled(sample))

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        return filled(sample, response)

    def checks(
        self, sample: Sample, program: str, suite: Suite, variant: Variant
    ) -> tuple[Check, ...]:
        """The test gets its own copy of the helpers, as in HumanEval."""
        name = sample.row["entry_point"]
        test = f"{around(filled(sample), name)}\n{sample.row['test']}"
        return (FunctionCheck(program, name, test, expose=(name,), limits=self.limits),)


class HumanEvalSingleLine(InfillingTask):
    """One line of a function is missing."""

    name = "humaneval-single-line"
    files: ClassVar[tuple[DataFile, ...]] = (INFILLING["SingleLineInfilling"],)


class HumanEvalMultiLine(InfillingTask):
    """Every run of lines of a function, in turn."""

    name = "humaneval-multi-line"
    length = 128
    files: ClassVar[tuple[DataFile, ...]] = (INFILLING["MultiLineInfilling"],)


class HumanEvalRandomSpan(InfillingTask):
    """Ten spans of each function, most of them cut inside a token."""

    name = "humaneval-random-span"
    files: ClassVar[tuple[DataFile, ...]] = (INFILLING["RandomSpanInfilling"],)


class HumanEvalRandomSpanLight(InfillingTask):
    """One span of each function; its prompts begin with an empty line."""

    name = "humaneval-random-span-light"
    files: ClassVar[tuple[DataFile, ...]] = (INFILLING["RandomSpanInfillingLight"],)


class SantaCoder(FromRows, AnswerTask):
    """One line between others; right if it is the very line, indentation aside.

    The data leave out the line breaks around the line. As in the released evaluations the prefix gets one and
    the suffix none, so a whole answer ends with a line break.
    """

    name = "santacoder-fim"
    metric = "exact_match"
    length = 64
    files: ClassVar[tuple[DataFile, ...]] = (SANTACODER,)

    @staticmethod
    def sample(row: dict[str, Any]) -> Sample:
        infill = Infill(row["suffix"], f"{row['canonical_solution']}\n")
        return Sample(row["name"], (), f"{row['prompt']}\n", row, infill, function_of(row["name"]))

    def references(self) -> Iterator[Reference]:
        for sample in self._samples:
            yield Reference(sample.id, sample.row["canonical_solution"].strip())

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        """As published: the first line, or the second after an empty one. Repaired: the first with text."""
        return str(self.read("infilled_line", response, published=variant == "as_published"))

    def grade(self, sample: Sample, answer: str, variant: Variant) -> Verdict:
        right = sample.row["canonical_solution"].strip()
        if answer == right:
            return Verdict("pass")
        return Verdict("fail", f"The line is {answer[:100]!r}, but {right[:100]!r} is right.")


def filled(sample: Sample, middle: str | None = None) -> str:
    """Prefix, answer and suffix as one text; with the reference where no answer is given."""
    assert sample.infill is not None
    inner = sample.infill.middle if middle is None else middle
    return f"{sample.prefix}{inner}{sample.infill.suffix}"


def function_of(id: str) -> str:
    """`SingleLineInfilling/HumanEval/0/L3` -> `HumanEval/0`."""
    match = FUNCTION.search(id)
    assert match is not None
    return match[0].replace("_", "/")
