"""PubMedQA, all 1,000 questions as in the paper: yes, no or maybe from an abstract, and recall by label."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from archer.judge import Verdict
from archer.tasks.base import AnswerTask, Reference, Sample, Variant, user
from archer.tasks.reading.answers import LABELS
from archer.tasks.sources import PUBMEDQA


class PubMedQA(AnswerTask):
    """The model reads the abstract without its conclusion."""

    name = "pubmedqa"
    metric = "accuracy"
    files = (PUBMEDQA,)

    @cached_property
    def _samples(self) -> tuple[Sample, ...]:
        return tuple(_sample(key, row) for key, row in self.data.object(PUBMEDQA).items())

    def samples(self) -> Sequence[Sample]:
        return self._samples

    def references(self) -> Iterator[Reference]:
        for sample in self._samples:
            yield Reference(sample.id, sample.row["final_decision"])

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        """No extraction is published; the plain reading stands for it: the first label."""
        return str(self.read("pubmedqa_answer", response, marks=variant == "repaired"))

    def grade(self, sample: Sample, answer: str, variant: Variant) -> Verdict:
        right, label = sample.row["final_decision"], self.read("label", answer)
        if label == right:
            return Verdict("pass")
        if not label:
            return Verdict("fail", "The response holds none of yes, no and maybe.")
        return Verdict("fail", f"The answer is {label}, but {right} is right.")

    def measures(self, answered: Sequence[tuple[Sample, str]]) -> dict[str, Any]:
        pairs = [
            (sample.row["final_decision"], str(self.read("label", answer)))
            for sample, answer in answered
        ]
        return {
            "recall": {label: _share(pairs, label) for label in LABELS},
            "macro_f1": sum(_f1(pairs, label) for label in LABELS) / len(LABELS),
            "without_label": sum(not answer for _, answer in pairs) / len(pairs),
        }


def _share(pairs: Sequence[tuple[str, str]], label: str) -> float | None:
    """Recall of a label; None where no question has it."""
    answers = [answer for right, answer in pairs if right == label]
    return answers.count(label) / len(answers) if answers else None


def _f1(pairs: Sequence[tuple[str, str]], label: str) -> float:
    hits = sum(right == answer == label for right, answer in pairs)
    mentions = sum(right == label for right, _ in pairs) + sum(
        answer == label for _, answer in pairs
    )
    return 2 * hits / mentions if mentions else 0.0


def _sample(key: str, row: dict[str, Any]) -> Sample:
    abstract = "\n".join(row["CONTEXTS"])
    request = f"Question: {row['QUESTION']}\nAnswer with yes, no or maybe."
    return Sample(key, user(f"Abstract: {abstract}\n{request}"), "Answer:", row)
