"""GSM8K (1,319 grade-school problems): a number, with the prompt of d1."""

from collections.abc import Iterator, Sequence
from functools import cached_property

from archer.judge import Verdict
from archer.tasks.base import AnswerTask, Reference, Sample, Variant, user
from archer.tasks.sources import GSM8K

MARK = "#### "
REQUEST = (
    "You are a math expert. You will be given a question to solve. Solve it step by step. Wrap the "
    "final answer in a \\boxed{}. \nRespond in the following format:\n<reasoning>\nYour reasoning "
    "here\n</reasoning>\n<answer>\n\\boxed{...}\n</answer>"
)


class GradeSchoolMath(AnswerTask):
    """Repaired: a marked answer, else the last number. As published: d1's reading, which stops at a comma."""

    name = "gsm8k"
    metric = "accuracy"
    files = (GSM8K,)

    @cached_property
    def _samples(self) -> tuple[Sample, ...]:
        return tuple(
            Sample(f"test/{number}", user(f"{REQUEST}\n\n{row['question']}"), "<reasoning>", row)
            for number, row in enumerate(self.data.rows(GSM8K))
        )

    def samples(self) -> Sequence[Sample]:
        return self._samples

    def references(self) -> Iterator[Reference]:
        for sample in self._samples:
            yield Reference(sample.id, right_number(sample))

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        return str(self.read("gsm8k_answer", response, published=variant == "as_published"))

    def grade(self, sample: Sample, answer: str, variant: Variant) -> Verdict:
        right = right_number(sample)
        if self.read("gsm8k_right", answer, right=right):
            return Verdict("pass")
        if not answer:
            return Verdict("fail", "The response holds no number.")
        return Verdict("fail", f"The answer is {answer[:100]}, but {right} is right.")


def right_number(sample: Sample) -> str:
    """What follows the mark at the end of the worked answer, without its commas."""
    return str(sample.row["answer"]).rpartition(MARK)[2].strip().replace(",", "")
