"""Sudoku grids and puzzles: made anew from a split and an index, the same on any machine.

A solution belongs to one split by the hash of its pattern, which is the grid with its digits renamed in order
of appearance: what is held out is no renaming of anything trained on. Grids of
6x6 have 39,168 patterns. Those of 4x4 have only 12, and all of them are trained on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Literal

from archer.pocket.grids import EMPTY, HELD, HeldOut, Puzzle, size_of, units

Split = Literal["train", "dev", "test", "confirm3"]
SETS: Mapping[HeldOut, tuple[Split, int, int]] = {
    "dev": ("dev", 9, 32),
    "dev-6x6": ("dev", 6, 0),
    "confirm3": ("confirm3", 9, 32),
}
"""Where the puzzles of a set come from, the size of their grids, and how many digits are given at least."""
VERSION = 1
"""Raised whenever the generator changes: it is part of every seed."""
ALWAYS_TRAINED = 4
"""Grids of at most this size are too few to hold any out."""


def split_of(solution: str) -> Split:
    """One pattern in sixteen each for dev, test and confirm3; the others are trained on."""
    if len(solution) <= ALWAYS_TRAINED**2:
        return "train"
    drawn = hashlib.blake2b(pattern(solution).encode(), digest_size=2).digest()[0] % 16
    held_out: dict[int, Split] = {0: "test", 1: "dev", 2: "confirm3"}
    return held_out.get(drawn, "train")


def pattern(solution: str) -> str:
    """The grid with its digits renamed in order of appearance."""
    names = {digit: str(place) for place, digit in enumerate(dict.fromkeys(solution), start=1)}
    return "".join(names[digit] for digit in solution)


def solution(rng: Random, split: Split, size: int) -> str:
    """A full grid of a split."""
    while True:
        (drawn,) = solutions(EMPTY * size**2, 1, rng)
        if split_of(drawn) == split:
            return drawn


def puzzle(split: Split, index: int, size: int, least: int = 0) -> Puzzle:
    """The `index`-th puzzle of a split: digits are left out in random order while one solution remains.

    At least `least` stay; with 0 none of those that stay could be left out, too.
    """
    rng = Random(f"sudoku-{VERSION}-{split}-{size}-{index}")
    solved = solution(rng, split, size)
    cells, order = list(solved), list(range(size**2))
    rng.shuffle(order)
    for place in order:
        if len(cells) - cells.count(EMPTY) == least:
            break
        cells[place] = EMPTY
        if len(solutions("".join(cells), 2)) > 1:
            cells[place] = solved[place]
    return Puzzle(f"sudoku-{split}-{size}-{index}", "".join(cells), solved)


def puzzle_set(split: HeldOut) -> list[Puzzle]:
    """The first puzzles of a split that differ in their pattern."""
    home, size, least = SETS[split]
    puzzles: dict[str, Puzzle] = {}
    index = 0
    while len(puzzles) < HELD[split]:
        drawn = puzzle(home, index, size, least)
        puzzles.setdefault(pattern(drawn.solution), drawn)
        index += 1
    return list(puzzles.values())


def solutions(givens: str, most: int, rng: Random | None = None) -> list[str]:
    """Up to `most` solutions of a grid; with `rng` the digits of a cell are tried in random order."""
    size = size_of(givens)
    homes = _homes(size)
    free = [(1 << size) - 1] * (3 * size)
    """Of each unit, the digits that it lacks, a bit each."""
    cells = [0] * len(givens)
    for place, given in enumerate(givens):
        if given != EMPTY:
            bit = 1 << (int(given) - 1)
            if any(not free[unit] & bit for unit in homes[place]):
                return []
            _toggle(free, homes[place], bit)
            cells[place] = bit
    grids: list[str] = []

    def search(blanks: list[int]) -> None:
        if not blanks:
            grids.append("".join(str(bit.bit_length()) for bit in cells))
            return
        place, left = -1, -1
        for blank in blanks:
            row, column, box = homes[blank]
            allowed = free[row] & free[column] & free[box]
            if left < 0 or allowed.bit_count() < left.bit_count():
                place, left = blank, allowed
                if allowed.bit_count() < 2:
                    break
        bits = [1 << digit for digit in range(size) if left >> digit & 1]
        if rng is not None:
            rng.shuffle(bits)
        others = [blank for blank in blanks if blank != place]
        for bit in bits:
            cells[place] = bit
            _toggle(free, homes[place], bit)
            search(others)
            _toggle(free, homes[place], bit)
            if len(grids) == most:
                return

    search([place for place, bit in enumerate(cells) if not bit])
    return grids


def _toggle(free: list[int], homes: tuple[int, ...], bit: int) -> None:
    for unit in homes:
        free[unit] ^= bit


@cache
def _homes(size: int) -> list[tuple[int, ...]]:
    """Of each cell, the numbers of its row, column and box."""
    return [
        tuple(number for number, unit in enumerate(units(size)) if place in unit)
        for place in range(size**2)
    ]
