"""pocket-sudoku: grids for the bundled model of that name, graded by the rules alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar

from archer.judge import Verdict
from archer.pocket import grids
from archer.tasks.base import AnswerTask, Reference, Sample, Variant, user
from archer.tasks.sources import SUDOKU, SUDOKU_GRIDS, DataFile


class PocketSudoku(AnswerTask):
    """The digits that are given stand in the response; the model writes the others.

    A grid counts if it keeps them and every row, column and box has every digit.
    """

    name = "pocket-sudoku"
    metric = "solved"
    files: ClassVar[tuple[DataFile, ...]] = ()
    length = 90
    split: ClassVar[grids.HeldOut] = "dev"
    dev: ClassVar[str | None] = "pocket-sudoku"

    def puzzles(self) -> Iterator[grids.Puzzle]:
        """In the order in which they are asked."""
        self.data.digests[f"pocket/sudoku-{self.split}.jsonl"] = grids.DIGESTS[self.split]
        yield from grids.load(self.split)

    @cached_property
    def _samples(self) -> tuple[Sample, ...]:
        return tuple(
            Sample(
                each.name,
                user(grids.message(each.size)),
                "",
                each.record(),
                canvas=grids.fill(each.givens),
            )
            for each in self.puzzles()
        )

    def samples(self) -> Sequence[Sample]:
        return self._samples

    def references(self) -> Iterator[Reference]:
        for sample in self._samples:
            yield Reference(sample.id, sample.row["solution"])

    def extract(self, response: str, sample: Sample, variant: Variant) -> str:
        """The cells: the response reaches from the first gap to the last, and givens stand around it."""
        assert sample.canvas is not None
        first, last = sample.canvas.parts[0], sample.canvas.parts[-1]
        return grids.cells(f"{first}{response}{last}")

    def grade(self, sample: Sample, answer: str, variant: Variant) -> Verdict:
        fault = grids.fault(answer, sample.row["givens"])
        return Verdict("pass") if fault is None else Verdict("fail", fault)


class PocketSudokuSmall(PocketSudoku):
    """Grids of 6x6 with as few digits given as there can be."""

    name = "pocket-sudoku-6x6"
    split = "dev-6x6"
    length = 42
    dev = "pocket-sudoku-6x6"


class PocketSudokuConfirm(PocketSudoku):
    """Other grids, for confirmations that are planned beforehand."""

    name = "pocket-sudoku-confirm"
    split = "confirm3"
    dev = None
    sealed = True


class PocketSudokuD1(PocketSudoku):
    """d1's 4x4 grids. Its own score is the measure `cells`: the share of empty cells that are as in the data.

    Some have several solutions. Every grid that keeps the givens and the rules counts as solved.
    """

    name = "pocket-sudoku-d1"
    files: ClassVar[tuple[DataFile, ...]] = (SUDOKU,)
    length = 20
    dev = None

    def puzzles(self) -> Iterator[grids.Puzzle]:
        for number, row in enumerate(self.data.table(SUDOKU)):
            yield grids.published(f"4x4/{number}", row["Puzzle"], row["Solution"])

    def measures(self, answered: Sequence[tuple[Sample, str]]) -> dict[str, Any]:
        pairs = ((grids.Puzzle(**sample.row), answer) for sample, answer in answered)
        return {"cells": grids.share_right(pairs)}


class PocketSudokuDream(PocketSudoku):
    """Dream's 4x4 grids: nine files, by the number of cells that are given."""

    name = "pocket-sudoku-dream"
    files: ClassVar[tuple[DataFile, ...]] = tuple(SUDOKU_GRIDS.values())
    length = 20
    dev = None

    def puzzles(self) -> Iterator[grids.Puzzle]:
        for givens, file in SUDOKU_GRIDS.items():
            for number, row in enumerate(self.data.rows(file)):
                yield grids.published(f"{givens}/{number}", row["input"], row["output"])

    def measures(self, answered: Sequence[tuple[Sample, str]]) -> dict[str, Any]:
        solved: dict[str, list[bool]] = {}
        for sample, answer in answered:
            verdicts = solved.setdefault(str(sample.id).partition("/")[0], [])
            verdicts.append(grids.solves(answer, sample.row["givens"]))
        return {givens: sum(each) / len(each) for givens, each in solved.items()}
