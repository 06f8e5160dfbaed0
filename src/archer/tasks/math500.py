r"""MATH-500: problems with an answer in \boxed{...}, with the prompt of the paper's lineage."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from archer.errors import BadRequest, extra
from archer.judge import Verdict
from archer.judge.checks import MIB
from archer.judge.reader import PRELOAD, Readers, Reading, Unreadable
from archer.tasks.base import AnswerTask, FromRows, Grade, Reference, Sample, Variant, user
from archer.tasks.reader import sources
from archer.tasks.sources import MATH500, Data

REQUEST = (
    "You are a math expert. You will be given a question to solve. Solve it step by step. Wrap the "
    "final answer in a \\boxed{}.\nRespond in the following format:\n<reasoning>\nYour reasoning "
    'here\n</reasoning>\n<answer>\n\\boxed{...}\n</answer>" \n'
)
"""With the stray quotation mark of the release."""
SECONDS = 10.0
MEMORY_BYTES = 1024 * MIB
PACKAGES = ("math_verify", "latex2sympy2_extended", "sympy", "mpmath", "antlr4")
"""math-verify and all that it needs."""
PARSER_RUNTIME = "antlr4-python3-runtime"
"""The distribution whose version decides which parser it takes."""


def math_verify_version() -> str:
    """The installed version; refused with a remedy when there is none."""
    if find_spec("math_verify") is None:
        raise BadRequest(
            "MATH-500 is graded by math-verify, which is not installed; "
            f"install it with: {extra('eval')}"
        )
    return version("math-verify")


class Algebra(Readers):
    """A reader with math-verify, which a text can keep busy for ever: each question has a time limit."""

    def __init__(self, seconds: float = SECONDS) -> None:
        math_verify_version()
        reading = Reading(
            modules=sources(),
            packages=PACKAGES,
            preload=(*PRELOAD, "math_verify"),
            versions={PARSER_RUNTIME: version(PARSER_RUNTIME)},
            seconds=seconds,
            memory_bytes=MEMORY_BYTES,
        )
        super().__init__(reading, count=1)

    def compare(self, answer: str, right: str) -> Verdict:
        """Pass if both are equal. A question that takes too long is asked once more."""
        began = time.monotonic()
        try:
            equal = self.read("math_equal", answer, right=right)
        except Unreadable as fault:
            verdict = fault.verdict
        else:
            reason = f"The answer is {answer[:100]!r}, but {right!r} is right."
            verdict = Verdict("pass") if equal else Verdict("fail", reason)
        return Verdict(verdict.outcome, verdict.reason, time.monotonic() - began)


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
