"""A Sudoku grid in the player: the board, its boxes, and the digits that were given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import archer
from archer.model import Model
from archer.pages.trajectory import Trajectory, rows
from archer.pocket import grids
from pages.playing import Show, html_of, now, trajectory
from support.recorded import simulate

if TYPE_CHECKING:
    from playwright.sync_api import Page

FOUR = grids.Puzzle("4", "1234" + "." * 9 + "1..", "")
"""The first gap is in the second line."""
PUZZLES = (FOUR, grids.load("dev-6x6")[0], grids.load("dev")[0])
LAST = "1234341221434321"


@pytest.fixture(scope="module")
def sudoku() -> Model:
    return archer.load("pocket-sudoku", device="cpu", dtype="float32")


def recorded(model: Model, givens: str) -> Trajectory:
    (found,) = rows(model.record(grids.fill(givens), "saber").events)
    return found


def board(at: Page) -> dict[str, Any]:
    """The cells by where they are seen, line by line, and the sides on which each has the edge of a box."""
    found: dict[str, Any] = at.locator(".board").evaluate(
        """(board) => {
          const cells = [...board.querySelectorAll(":scope > .cell")];
          const height = (cell) => Math.round(cell.getBoundingClientRect().y);
          const lines = Object.values(Object.groupBy(cells, height));
          const known = ["top", "left", "right", "bottom"];
          const sides = (cell) => known.filter((side) => cell.classList.contains(side));
          return {
            lines: lines.map((line) => line.map((cell) => cell.textContent).join("")),
            sides: lines.map((line) => line.map(sides)),
          };
        }"""
    )
    return found


@pytest.mark.parametrize("puzzle", PUZZLES, ids=["4x4", "6x6", "9x9"])
def test_a_grid_is_a_board_that_keeps_its_givens(
    show: Show, sudoku: Model, puzzle: grids.Puzzle
) -> None:
    run = recorded(sudoku, puzzle.givens)
    at = show(html_of(run))
    assert board(at)["lines"] == grids.lines(puzzle.givens).replace(".", "·").split("\n")
    at.keyboard.press("End")
    assert now(at) == len(run.updates)
    found = board(at)
    assert run.completion is not None
    parts, gaps = run.completion["parts"], [*run.completion["gaps"], ""]
    whole = "".join(part + gap for part, gap in zip(parts, gaps, strict=True))
    assert found["lines"] == whole.split("\n")
    high, wide = grids.BOXES[puzzle.size]
    last = puzzle.size - 1
    for row, line in enumerate(found["sides"]):
        for column, sides in enumerate(line):
            at_edge = [row % high == 0, column % wide == 0, column == last, row == last]
            names = ("top", "left", "right", "bottom")
            assert sides == [side for side, here in zip(names, at_edge, strict=True) if here]


def test_every_position_of_a_board_can_be_reached_by_keys(show: Show, sudoku: Model) -> None:
    at = show(html_of(recorded(sudoku, FOUR.givens)))
    at.locator(".slot[tabindex='0']").focus()
    for place in range(1, 14):
        at.keyboard.press("ArrowDown")
        assert at.evaluate("+document.activeElement.dataset.at") == place


def test_one_open_cell_is_a_board_of_its_own_size(show: Show, sudoku: Model) -> None:
    at = show(html_of(recorded(sudoku, LAST[:-1] + ".")))
    at.keyboard.press("End")
    assert board(at)["lines"] == grids.lines(LAST).split("\n")


def test_other_responses_are_no_boards(show: Show, sudoku: Model) -> None:
    at = show(html_of(trajectory(simulate(1))))
    assert at.locator(".board").count() == 0
    (own,) = rows(sudoku.record(grids.message(4), "saber", length=20).events)
    assert show(html_of(own)).locator(".board").count() == 0, "no line break of it was given"
