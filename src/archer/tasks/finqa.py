"""FinQA test set (1,147 questions): a number, or yes or no, from a report with a table.

The paper names no tolerance. The score accepts 1 % of the right value, also off by the factor 100 of
a percentage; the strict score does without the factor. No rule here rounds to the precision of the
answer: under such rules a constant answer of 0 is accepted for most questions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from math import isfinite
from typing import Any

from archer.judge import Verdict
from archer.tasks.base import AnswerTask, Reference, Sample, Variant, user
from archer.tasks.marked import marked_answer
from archer.tasks.numbers import find_numbers
from archer.tasks.sources import FINQA

TOLERANCE = 1e-2
FACTORS = (1.0, 100.0, 0.01)
WORD = re.compile(r"\b(yes|no)\b", re.IGNORECASE)
REQUEST = (
    "Read the financial report and answer the question. Work out the result step by step. End with "
    "one line that says only: The answer is NUMBER. Answer a question that asks for it with yes or no."
)


class FinQA(AnswerTask):
    """The model reads text, table and text, and ends with one number."""

    name = "finqa"
    metric = "accuracy"
    files = (FINQA,)

    @cached_property
    def _samples(self) -> tuple[Sample, ...]:
        return tuple(_sample(row) for row in self.data.rows(FINQA))

    def samples(self) -> Sequence[Sample]:
        return self._samples

    def references(self) -> Iterator[Reference]:
        for sample in self._samples:
            yield Reference(sample.id, str(sample.row["exe_ans"]))

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        """No extraction is published; the plain reading stands for it: the last number or word."""
        marked = marked_answer(response) if variant == "repaired" else None
        if isinstance(sample.row["exe_ans"], str):
            return _word(marked) or _word(response)
        return (_result(marked) if marked else "") or _last(response)

    def grade(self, sample: Sample, answer: str, variant: Variant) -> Verdict:
        """As published: strict. Repaired: with the factors of a percentage."""
        right = sample.row["exe_ans"]
        if accepted(answer, right, (1.0,) if variant == "as_published" else FACTORS):
            return Verdict("pass")
        if not answer:
            return Verdict("fail", "The response holds no answer.")
        return Verdict("fail", f"The answer is {answer[:100]}, but {right} is right.")

    def measures(self, answered: Sequence[tuple[Sample, str]]) -> dict[str, Any]:
        strict = [accepted(answer, sample.row["exe_ans"], (1.0,)) for sample, answer in answered]
        return {"score_strict": sum(strict) / len(strict), "tolerance": TOLERANCE}


def accepted(answer: str, right: float | str, factors: Sequence[float]) -> bool:
    """Whether an answer is the right word, or one of its readings is near the right number."""
    if isinstance(right, str):
        return _word(answer) == right
    numbers = find_numbers(answer)
    if len(numbers) != 1:
        return False
    number = numbers[0]
    readings = [number.value * factor for factor in factors]
    return any(isfinite(each) and abs(each - right) <= TOLERANCE * abs(right) for each in readings)


def _word(text: str | None) -> str:
    found = WORD.search(text or "")
    return found.group(1).lower() if found else ""


def _result(marked: str) -> str:
    """The first number behind the last equals sign of a marked answer."""
    numbers = find_numbers(marked.rpartition("=")[2])
    return _written(numbers[0].written, numbers[0].percent) if numbers else ""


def _last(text: str) -> str:
    numbers = find_numbers(text)
    return _written(numbers[-1].written, numbers[-1].percent) if numbers else ""


def _written(size: float, percent: bool) -> str:
    return f"{size!r}%" if percent else repr(size)


def _sample(row: dict[str, Any]) -> Sample:
    table = "\n".join(" | ".join(cells) for cells in row["table"])
    report = f"{row['pre_text']}\n\n{table}\n\n{row['post_text']}"
    return Sample(row["id"], user(f"{REQUEST}\n\n{report}\n\nQuestion: {row['question']}"), "", row)
