r"""MATH-500: problems with an answer in \boxed{...}, with the prompt of the paper's lineage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from archer.judge import Verdict
from archer.tasks.algebra import Algebra, math_verify_version
from archer.tasks.base import AnswerTask, FromRows, Grade, Reference, Sample, Variant, user
from archer.tasks.sources import MATH500, Data

REQUEST = (
    "You are a math expert. You will be given a question to solve. Solve it step by step. Wrap the "
    "final answer in a \\boxed{}.\nRespond in the following format:\n<reasoning>\nYour reasoning "
    'here\n</reasoning>\n<answer>\n\\boxed{...}\n</answer>" \n'
)
"""With the stray quotation mark of the release."""


class Math500(FromRows, AnswerTask):
    """Repaired: math-verify on a marked answer. As published: the lineage's normal forms."""

    name = "math500"
    metric = "accuracy"
    files = (MATH500,)

    def __init__(self, data: Data) -> None:
        super().__init__(data)
        math_verify_version()  # refused before any data is fetched and any model loaded

    @staticmethod
    def sample(row: dict[str, Any]) -> Sample:
        return Sample(row["unique_id"], user(f"{REQUEST}\n\n{row['problem']}"), "<reasoning>", row)

    def references(self) -> Iterator[Reference]:
        for sample in self._samples:
            yield Reference(sample.id, sample.row["answer"])

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        operation = "lineage_answer" if variant == "as_published" else "math_answer"
        return str(self.read(operation, response))

    def grade(self, sample: Sample, answer: str, variant: Variant) -> Verdict:
        """One answer; for many, `grading` keeps the process of math-verify."""
        with self.grading() as grade:
            return grade(sample, answer, variant)

    @contextmanager
    def grading(self) -> Iterator[Grade]:
        with Algebra() as algebra:
            yield lambda sample, answer, variant: self._grade(algebra, sample, answer, variant)

    def _grade(self, algebra: Algebra, sample: Sample, answer: str, variant: Variant) -> Verdict:
        right = sample.row["answer"]
        if not answer:
            return Verdict("fail", "The response holds no marked answer.")
        if variant == "repaired":
            return algebra.compare(answer, right)
        if self.read("same_in_lineage", answer, right=right):
            return Verdict("pass")
        return Verdict("fail", f"The answer is {answer[:100]!r}, but {right!r} is right.")

    def measures(self, answered: Sequence[tuple[Sample, str]]) -> dict[str, Any]:
        return {
            "math_verify": math_verify_version(),
            "without_answer": sum(not answer for _, answer in answered) / len(answered),
        }
