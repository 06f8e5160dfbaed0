"""Countdown and 4x4 Sudoku as d1 and as Dream ask and grade them: protocols whose scores cannot be compared.

d1 asks by a chat, gives three numbers, and counts the cells of a grid. Dream shows eight solved problems of
the same file, has the steps written out, and wants whole grids.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import permutations
from typing import Any, ClassVar

from archer.judge import Verdict
from archer.pocket import grids
from archer.tasks.base import AnswerTask, Reference, Sample, Variant, user
from archer.tasks.sources import COUNTDOWN, COUNTDOWN_STEPS, SUDOKU, SUDOKU_GRIDS, DataFile

SHOTS = 8
"""Solved problems that Dream's prompts show: the first of the file, which are then not asked."""
COUNTDOWN_REQUEST = (
    "Using only the provided numbers, create an arithmetic expression that evaluates to exactly the "
    "provided target number. You may use the operations +, -, *, and / as needed, but each number must "
    "be used exactly once. Think step-by-step. After reasoning, provide only your final expression "
    "inside \\boxed{} tags without including an equals sign or the target number. For example: "
    "\\boxed{a + b * c}Respond in the following format:\n<reasoning>\nYour reasoning here\n"
    "</reasoning>\n<answer>\n\\boxed{...}\n</answer>"
)
SUDOKU_REQUEST = (
    "\nPlease solve the following 4x4 Sudoku puzzle. The puzzle is provided as a 16-character string "
    "reading left-to-right, top-to-bottom, where '0' represents empty cells.\n\nRules:\n- Fill empty "
    "cells with digits 1-4\n- Each row must contain digits 1-4 exactly once\n- Each column must contain "
    "digits 1-4 exactly once\n- Each 2x2 box must contain digits 1-4 exactly once\n\nImportant: Your "
    "solution must be a COMPLETE 16-character string with only the digits 1-4, representing your final "
    "solved grid.\n\nRespond in this exact format:\n<reasoning>\nYour step-by-step solving process\n"
    "</reasoning>\n<answer>\n[16-character solution string with no spaces or separators]\n</answer>\n"
)
GRID_REQUEST = (
    "Fill the positions where the values are 0 in a 4x4 grid with digits 1-4 so that each column, each "
    "row, and each of the four 2x2 subgrids that compose the grid contains all of the digits from 1 to "
    "4.\n\n"
)
WORDS = {
    3: "three numbers to achieve the last",
    4: "four numbers to achieve the fifth",
    5: "five numbers to achieve the last",
}


class Puzzles(AnswerTask):
    """What the four share: problems that are read once, and one operation that decides."""

    metric = "accuracy"

    @abstractmethod
    def _read_all(self) -> Iterator[Sample]:
        """The problems in the order of the files."""

    @abstractmethod
    def _solved(self, sample: Sample, answer: str, variant: Variant) -> bool:
        """Whether an answer is a solution."""

    @cached_property
    def _samples(self) -> tuple[Sample, ...]:
        return tuple(self._read_all())

    def samples(self) -> Sequence[Sample]:
        return self._samples

    def grade(self, sample: Sample, answer: str, variant: Variant) -> Verdict:
        if self._solved(sample, answer, variant):
            return Verdict("pass")
        if not answer:
            return Verdict("fail", "The response holds no solution.")
        return Verdict("fail", f"{answer[:100]!r} is no solution.")


class Countdown(Puzzles):
    """d1's: an expression of three numbers. The data have no solutions; references are found by search."""

    name = "countdown"
    files: ClassVar[tuple[DataFile, ...]] = (COUNTDOWN,)

    def _read_all(self) -> Iterator[Sample]:
        for number, row in enumerate(self.data.rows(COUNTDOWN)):
            numbers = [int(each) for each in row["input"].split(",")]
            question = f"Numbers: {numbers}\nTarget: {row['output']}"
            content = user(f"{COUNTDOWN_REQUEST}\n\n{question}")
            facts = {"numbers": numbers, "target": int(row["output"])}
            yield Sample(f"cd3/{number}", content, "<reasoning>", facts)

    def references(self) -> Iterator[Reference]:
        for sample in self._samples:
            yield Reference(sample.id, solution(sample.row["numbers"], sample.row["target"]))

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        published = variant == "as_published"
        return str(self.read("countdown_expression", response, published=published))

    def _solved(self, sample: Sample, answer: str, variant: Variant) -> bool:
        return bool(self.read("countdown_reached", answer, **sample.row))


class CountdownSteps(Puzzles):
    """Dream's: worked steps from three to five numbers to the last one."""

    count: ClassVar[int]

    def _read_all(self) -> Iterator[Sample]:
        rows = list(self.data.rows(self.files[0]))
        shown = "\n\n".join(
            f"Input: {row['input']}\nOutput: {row['output']}" for row in rows[:SHOTS]
        )
        request = (
            f"Given {self.count + 1} numbers, use +-*/ to operate over the first {WORDS[self.count]} "
            f"number.\n\n{shown}"
        )
        for number, row in enumerate(rows[SHOTS:], start=SHOTS):
            *numbers, target = map(int, row["input"].split(","))
            prompt = f"{request}\n\nInput: {row['input']}\nOutput: "
            facts = {"numbers": numbers, "target": target, "steps": row["output"]}
            yield Sample(f"cd{self.count}/{number}", (), prompt, facts)

    def references(self) -> Iterator[Reference]:
        for sample in self._samples:
            yield Reference(sample.id, sample.row["steps"])

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        return str(self.read("countdown_steps", response, published=variant == "as_published"))

    def _solved(self, sample: Sample, answer: str, variant: Variant) -> bool:
        numbers, target = sample.row["numbers"], sample.row["target"]
        return bool(self.read("countdown_stepped", answer, numbers=numbers, target=target))


class CountdownSteps3(CountdownSteps):
    """Three numbers and the target."""

    name = "countdown-steps-3"
    length = 32
    count = 3
    files: ClassVar[tuple[DataFile, ...]] = (COUNTDOWN_STEPS[3],)


class CountdownSteps4(CountdownSteps):
    """Four numbers and the target."""

    name = "countdown-steps-4"
    length = 48
    count = 4
    files: ClassVar[tuple[DataFile, ...]] = (COUNTDOWN_STEPS[4],)


class CountdownSteps5(CountdownSteps):
    """Five numbers and the target."""

    name = "countdown-steps-5"
    length = 64
    count = 5
    files: ClassVar[tuple[DataFile, ...]] = (COUNTDOWN_STEPS[5],)


class SudokuCells(Puzzles):
    """d1's: sixteen characters. Its score is the measure `cells`: the share of empty cells that are right.

    124 of the 500 puzzles have more than one solution. As published, and in `cells`, only the one in the data
    counts; repaired, every grid that keeps the givens and the rules.
    """

    name = "sudoku-cells"
    metric = "solved"
    files: ClassVar[tuple[DataFile, ...]] = (SUDOKU,)

    def _read_all(self) -> Iterator[Sample]:
        for number, row in enumerate(self.data.table(SUDOKU)):
            content = f"{SUDOKU_REQUEST}\n\nSolve the following Sudoku puzzle: {row['Puzzle']}\n"
            yield Sample(f"4x4/{number}", user(content), "<reasoning>", row)

    def references(self) -> Iterator[Reference]:
        for sample in self._samples:
            yield Reference(sample.id, sample.row["Solution"])

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        return str(self.read("sudoku_answer", response, published=variant == "as_published"))

    def _solved(self, sample: Sample, answer: str, variant: Variant) -> bool:
        puzzle = self._puzzle(sample)
        if variant == "as_published":
            return all(puzzle.right(answer))
        return grids.solves(answer, puzzle.givens)

    @staticmethod
    def _puzzle(sample: Sample) -> grids.Puzzle:
        return grids.published(str(sample.id), sample.row["Puzzle"], sample.row["Solution"])

    def measures(self, answered: Sequence[tuple[Sample, str]]) -> dict[str, Any]:
        return {
            "cells": grids.share_right((self._puzzle(each), answer) for each, answer in answered)
        }


class SudokuGrids(Puzzles):
    """Dream's: four rows. Nine files, by the number of cells that are given; each has one solution."""

    name = "sudoku-grids"
    metric = "solved"
    length = 24
    files: ClassVar[tuple[DataFile, ...]] = tuple(SUDOKU_GRIDS.values())

    def _read_all(self) -> Iterator[Sample]:
        for givens, file in SUDOKU_GRIDS.items():
            rows = list(self.data.rows(file))
            shown = "\n\n".join(
                f"Input:\n{row['input']}\nOutput:\n{row['output']}" for row in rows[:SHOTS]
            )
            for number, row in enumerate(rows[SHOTS:], start=SHOTS):
                prompt = f"{GRID_REQUEST}{shown}\n\nInput:\n{row['input']}\nOutput:\n "
                yield Sample(f"{givens}/{number}", (), prompt, row | {"givens": givens})

    def references(self) -> Iterator[Reference]:
        for sample in self._samples:
            yield Reference(sample.id, sample.row["output"])

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        return str(self.read("grid_answer", response, published=variant == "as_published"))

    def _solved(self, sample: Sample, answer: str, variant: Variant) -> bool:
        puzzle = grids.published(str(sample.id), sample.row["input"], sample.row["output"])
        cells = grids.cells(answer)
        return grids.solves(cells, puzzle.givens) and answer == grids.lines(cells)

    def measures(self, answered: Sequence[tuple[Sample, str]]) -> dict[str, Any]:
        """The share that is solved, by the number of given cells."""
        solved: dict[str, list[bool]] = {}
        for sample, answer in answered:
            verdicts = solved.setdefault(str(sample.row["givens"]), [])
            verdicts.append(self._solved(sample, answer, "repaired"))
        return {"by_givens": {name: sum(each) / len(each) for name, each in solved.items()}}


def solution(numbers: Sequence[int], target: int) -> str:
    """An expression that has the target as its value; the first of a search through all."""
    values = [(Fraction(number), str(number)) for number in numbers]
    expression = _searched(values, target)
    assert expression is not None, "every published problem has a solution"
    return expression


def _searched(values: Sequence[tuple[Fraction, str]], target: int) -> str | None:
    if len(values) == 1:
        return values[0][1] if values[0][0] == target else None
    for (a, left), (b, right), *rest in permutations(values):
        joined = [(a + b, "+"), (a - b, "-"), (a * b, "*"), *([(a / b, "/")] if b else [])]
        for value, sign in joined:
            expression = _searched([*rest, (value, f"({left} {sign} {right})")], target)
            if expression is not None:
                return expression
    return None
