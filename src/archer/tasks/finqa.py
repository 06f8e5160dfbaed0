"""FinQA test set (1,147 questions): a number, or yes or no, from a report with a table.

The paper names no tolerance. The score accepts 1 % of the right value, also off by the factor 100 of
a percentage; the strict score does without the factor. No rule here rounds to the precision of the
answer: under such rules a constant answer of 0 is accepted for most questions.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from archer.judge import Verdict
from archer.tasks.base import AnswerTask, FromRows, Reference, Sample, Variant, user
from archer.tasks.reading.answers import TOLERANCE
from archer.tasks.sources import FINQA

STRICT = (1.0,)
FACTORS = (1.0, 100.0, 0.01)
REQUEST = (
    "Read the financial report and answer the question. Work out the result step by step. End with "
    "one line that says only: The answer is NUMBER. Answer a question that asks for it with yes or no."
)


class FinQA(FromRows, AnswerTask):
    """The model reads text, table and text, and ends with one number."""

    name = "finqa"
    metric = "accuracy"
    files = (FINQA,)

    @staticmethod
    def sample(row: dict[str, Any]) -> Sample:
        table = "\n".join(" | ".join(cells) for cells in row["table"])
        report = f"{row['pre_text']}\n\n{table}\n\n{row['post_text']}"
        return Sample(
            row["id"], user(f"{REQUEST}\n\n{report}\n\nQuestion: {row['question']}"), "", row
        )

    def references(self) -> Iterator[Reference]:
        for sample in self._samples:
            yield Reference(sample.id, str(sample.row["exe_ans"]))

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        """No extraction is published; the plain reading stands for it: the last number or word."""
        word = isinstance(sample.row["exe_ans"], str)
        answer = self.read("finqa_answer", response, marks=variant == "repaired", word=word)
        return str(answer)

    def grade(self, sample: Sample, answer: str, variant: Variant) -> Verdict:
        """As published: strict. Repaired: with the factors of a percentage."""
        right = sample.row["exe_ans"]
        factors = STRICT if variant == "as_published" else FACTORS
        if self.read("finqa_accepted", answer, right=right, factors=factors):
            return Verdict("pass")
        if not answer:
            return Verdict("fail", "The response holds no answer.")
        return Verdict("fail", f"The answer is {answer[:100]}, but {right} is right.")

    def measures(self, answered: Sequence[tuple[Sample, str]]) -> dict[str, Any]:
        strict = [
            self.read("finqa_accepted", answer, right=sample.row["exe_ans"], factors=STRICT)
            for sample, answer in answered
        ]
        return {"score_strict": sum(strict) / len(strict), "tolerance": TOLERANCE}
