"""The tasks by name: a literal table."""

from archer.errors import BadRequest, meant
from archer.methods.extensions import Extended
from archer.tasks.base import Task
from archer.tasks.finqa import FinQA
from archer.tasks.gsm8k import GradeSchoolMath
from archer.tasks.humaneval import HumanEval, HumanEvalET
from archer.tasks.infilling import (
    HumanEvalMultiLine,
    HumanEvalRandomSpan,
    HumanEvalRandomSpanLight,
    HumanEvalSingleLine,
    SantaCoder,
)
from archer.tasks.livecodebench import LiveCodeBench, LiveCodeBenchSamples
from archer.tasks.math500 import Math500
from archer.tasks.mbpp import Mbpp, MbppET
from archer.tasks.pocket import (
    Pocket,
    PocketConfirm,
    PocketConfirm3,
    PocketConfirm3Long,
    PocketConfirmLong,
    PocketDev,
    PocketDevLong,
    PocketInfillLine,
    PocketInfillLines,
    PocketInfillSpan,
    PocketLong,
)
from archer.tasks.pubmedqa import PubMedQA
from archer.tasks.puzzles import (
    Countdown,
    CountdownSteps3,
    CountdownSteps4,
    CountdownSteps5,
    SudokuCells,
    SudokuGrids,
)
from archer.tasks.sources import Data
from archer.tasks.sudoku import (
    PocketSudoku,
    PocketSudokuConfirm,
    PocketSudokuD1,
    PocketSudokuDream,
    PocketSudokuSmall,
)

TASKS: dict[str, type[Task]] = {
    task.name: task
    for task in (
        *(HumanEval, HumanEvalET, Mbpp, MbppET, LiveCodeBench, LiveCodeBenchSamples),
        *(Math500, FinQA, PubMedQA, GradeSchoolMath),
        *(Countdown, CountdownSteps3, CountdownSteps4, CountdownSteps5, SudokuCells, SudokuGrids),
        *(HumanEvalSingleLine, HumanEvalMultiLine, HumanEvalRandomSpan, HumanEvalRandomSpanLight),
        SantaCoder,
        *(Pocket, PocketLong, PocketDev, PocketDevLong),
        *(PocketConfirm, PocketConfirmLong, PocketConfirm3, PocketConfirm3Long),
        *(PocketInfillLine, PocketInfillLines, PocketInfillSpan),
        *(PocketSudoku, PocketSudokuSmall, PocketSudokuConfirm),
        *(PocketSudokuD1, PocketSudokuDream),
    )
}
ABOUT = {
    "humaneval": "164 Python functions from their docstrings",
    "humaneval-et": "the same, graded on the extended tests",
    "mbpp": "427 small Python functions from a sentence and asserts",
    "mbpp-et": "the same, graded on the extended tests",
    "livecodebench": "contest problems, graded on hidden tests",
    "livecodebench-samples": "the same, graded on the samples in the statement only",
    "math500": "500 competition problems with one answer each",
    "finqa": "questions about tables in financial reports",
    "pubmedqa": "yes, no or maybe, from an abstract",
    "gsm8k": "1,319 grade-school problems with a number as answer",
    "countdown": "an expression of three numbers that reaches a target, as d1 asks",
    "countdown-steps-3": "the steps from three numbers to a target, as Dream asks",
    "countdown-steps-4": "the same from four numbers",
    "countdown-steps-5": "the same from five numbers",
    "sudoku-cells": "500 grids of 4x4 as sixteen characters, as d1 asks",
    "sudoku-grids": "900 grids of 4x4 in four rows, as Dream asks",
    "humaneval-single-line": "a missing line of a function, graded on its tests",
    "humaneval-multi-line": "missing lines of a function, graded on its tests",
    "humaneval-random-span": "a missing span of a function, mostly cut inside tokens",
    "humaneval-random-span-light": "164 such spans, one of each function",
    "santacoder-fim": "a missing line of a function, graded by exact match",
    "pocket": "400 tiny Python functions for the bundled model",
    "pocket-long": "the same after a page of instructions and examples",
    "pocket-dev": "other problems of that kind, to choose settings on",
    "pocket-dev-long": "the same after a page of instructions and examples",
    "pocket-confirm": "1,000 problems of other structures, to confirm what was chosen",
    "pocket-confirm-long": "the same after a page of instructions and examples",
    "pocket-confirm3": "1,500 problems of yet other structures, for the third confirmation",
    "pocket-confirm3-long": "the same after a page of instructions and examples",
    "pocket-infill-line": "a missing line of the dev problems' references",
    "pocket-infill-lines": "missing lines of these",
    "pocket-infill-span": "a missing span of these, cut anywhere",
    "pocket-sudoku": "300 Sudoku grids for the bundled model of that name, to choose settings on",
    "pocket-sudoku-6x6": "300 grids of 6x6 with as few givens as can be",
    "pocket-sudoku-confirm": "1,500 other grids, to confirm what was chosen",
    "pocket-sudoku-d1": "d1's 500 grids of 4x4, whose givens stand in the response",
    "pocket-sudoku-dream": "Dream's 972 grids of 4x4, asked in the same way",
}
"""A line about each for `archer tasks`."""


def _adopted(loaded: object) -> type[Task]:
    if not isinstance(loaded, type) or not issubclass(loaded, Task):
        raise TypeError("it must be a subclass of archer.tasks.Task")
    return loaded


ALL_TASKS = Extended(TASKS, "archer.tasks", _adopted)
"""The table, and the tasks of other packages."""


def open_task(name: str, data: Data | None = None) -> Task:
    """A task by name, with its data where `Data` finds them."""
    if name not in ALL_TASKS:
        raise BadRequest(
            f"There is no task {name!r}.{meant(name, ALL_TASKS)} The tasks are {', '.join(ALL_TASKS)}."
        )
    return ALL_TASKS[name](data or Data())
