"""Sudoku grids as text: what belongs together, when a grid is right, and how a puzzle is written.

A grid is a string of its cells, row by row: digits, and a point for a cell that is not given. As a model
writes it, every row is a line.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from itertools import groupby
from typing import Literal

from archer.errors import BadRequest, quoted
from archer.pocket import frozen
from archer.request.fill import Fill

BOXES: Mapping[int, tuple[int, int]] = {4: (2, 2), 6: (2, 3), 9: (3, 3)}
"""Lines and columns of a box, by the number of digits."""
EMPTY = "."
HeldOut = Literal["dev", "dev-6x6", "confirm3"]
HELD: Mapping[HeldOut, int] = {"dev": 300, "dev-6x6": 300, "confirm3": 1500}
"""The published sets and their sizes; puzzles are of 9x9 unless the name says otherwise."""
DIGESTS: Mapping[HeldOut, str] = {
    "dev": "e41c2e2403f515eac00ec85f9596db364fe3674b42f81478bc16e267692bdfda",
    "dev-6x6": "be90487dcf13507d65e8856fb83807c5961d051b4755851f4e148fc7ff569e69",
    "confirm3": "b1b154c657a340cca84f01cb3af9946e640e7c049fb4f52e6d82bc7849a19d30",
}
"""sha256 of each file."""


@dataclass(frozen=True)
class Puzzle:
    """Givens that have one solution."""

    name: str
    givens: str
    """One character per cell; a point where nothing is given."""
    solution: str

    @property
    def size(self) -> int:
        """The number of digits."""
        return size_of(self.givens)

    def record(self) -> dict[str, str]:
        """What one line of a frozen set holds."""
        return asdict(self)

    def right(self, grid: str) -> list[bool]:
        """Of every empty cell, whether it is filled as in the solution."""
        empty = [place for place, given in enumerate(self.givens) if given == EMPTY]
        return [grid[place : place + 1] == self.solution[place] for place in empty]


def load(split: HeldOut) -> list[Puzzle]:
    """The puzzles of a set, from its file."""
    return parse(frozen.read(f"sudoku-{split}.jsonl"), split)


def parse(data: bytes, split: HeldOut) -> list[Puzzle]:
    """The puzzles in a set's bytes; refused when they are not the published ones."""
    frozen.check(data, DIGESTS[split], f"The {split} set of pocket-sudoku is")
    return [Puzzle(**json.loads(line)) for line in data.decode("ascii").splitlines()]


def published(name: str, givens: str, solution: str) -> Puzzle:
    """A puzzle as others write it: 0 for an empty cell, and a line for every row or none."""
    return Puzzle(name, cells(givens).replace("0", EMPTY), cells(solution))


def typed(text: str) -> str:
    """The cells of a grid that a user typed; refuses what is no puzzle.

    0 is an empty cell as well as a point, and lines may break anywhere.
    """
    givens = "".join(text.split()).replace("0", EMPTY)
    for sign in givens:
        if sign not in f"{EMPTY}123456789":
            raise BadRequest(
                f"{quoted(sign)} cannot stand in a grid. Write digits, and points or zeros for empty cells."
            )
    size = size_of(givens)
    if not size:
        *few, most = (str(each * each) for each in BOXES)
        raise BadRequest(
            f"A grid has {', '.join(few)} or {most} cells, not {len(givens)}. "
            "Write a point or a zero for every empty cell."
        )
    for sign in givens:
        if sign > str(size):
            raise BadRequest(
                f"A grid of {size}x{size} has the digits from 1 to {size}, not {sign}. Correct that cell."
            )
    _refuse_repeated(givens, size)
    if EMPTY not in givens:
        raise BadRequest(
            "Every cell of the grid is given. Write a point or a zero where a digit is wanted."
        )
    return givens


def _refuse_repeated(givens: str, size: int) -> None:
    """Refuse a grid without a solution where one row, column or box shows it."""
    for number, unit in enumerate(units(size)):
        digits = [givens[place] for place in unit if givens[place] != EMPTY]
        for digit in digits:
            if digits.count(digit) > 1:
                raise BadRequest(
                    f"{_unit(number, size)} has the digit {digit} more than once, so the grid has no "
                    "solution. Correct or empty one of the cells."
                )


def share_right(filled: Iterable[tuple[Puzzle, str]]) -> float:
    """Of all empty cells, the share that is filled as in the solutions."""
    right = [cell for puzzle, grid in filled for cell in puzzle.right(grid)]
    return sum(right) / len(right)


def size_of(grid: str) -> int:
    """The number of digits of a grid by its number of cells; 0 for a text that is no grid."""
    return next((size for size in BOXES if size * size == len(grid)), 0)


@cache
def units(size: int) -> tuple[tuple[int, ...], ...]:
    """The cells of every row, column and box: each holds every digit once."""
    high, wide = BOXES[size]
    rows = [tuple(range(row * size, row * size + size)) for row in range(size)]
    columns = [tuple(range(column, size * size, size)) for column in range(size)]
    boxes = [
        tuple((top + i) * size + left + j for i in range(high) for j in range(wide))
        for top in range(0, size, high)
        for left in range(0, size, wide)
    ]
    return (*rows, *columns, *boxes)


def solves(grid: str, givens: str) -> bool:
    """Whether a grid keeps the givens and has every digit once in every row, column and box."""
    return fault(grid, givens) is None


def fault(grid: str, givens: str) -> str | None:
    """What is wrong with a grid, as a sentence; None if it solves the puzzle."""
    size = size_of(givens)
    if not size or len(grid) != len(givens):
        return f"{len(grid)} cells are no grid of {len(givens)}."
    if any(given not in (EMPTY, cell) for given, cell in zip(givens, grid, strict=True)):
        return "A digit that is given is another one."
    digits = {str(digit) for digit in range(1, size + 1)}
    for number, unit in enumerate(units(size)):
        if {grid[place] for place in unit} != digits:
            return f"{_unit(number, size)} does not have every digit."
    return None


def _unit(number: int, size: int) -> str:
    """What one of the `units` is called."""
    return f"{('Row', 'Column', 'Box')[number // size]} {number % size + 1}"


def lines(grid: str) -> str:
    """The grid as a model reads and writes it: a line for every row."""
    size = size_of(grid)
    return "\n".join(grid[start : start + size] for start in range(0, len(grid), size))


def fill(givens: str) -> Fill:
    """The puzzle as a prompt: its answer has a gap wherever nothing is given."""
    parts, lengths = [""], []
    for empty, run in groupby(lines(givens), EMPTY.__eq__):
        text = "".join(run)
        if empty:
            lengths.append(len(text))
            parts.append("")
        else:
            parts[-1] = text
    return Fill(tuple(parts), tuple(lengths), message(size_of(givens)))


def cells(text: str | None) -> str:
    """The cells of a grid that a model wrote."""
    return (text or "").replace("\n", "")


def message(size: int) -> str:
    """What a user writes: the size of the grid alone, for its digits stand in the response."""
    return f"a {size}x{size} grid"


def known(words: Container[str]) -> list[int]:
    """The sizes of grids that a model fills, by its vocabulary: what a user writes is a word of it."""
    return [size for size in BOXES if message(size) in words]
