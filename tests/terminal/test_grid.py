"""A grid in a terminal without colour: givens, masks, fresh digits and those that were taken back."""

import io

from rich.console import Console

from archer.pocket import grids
from archer.results.trace import Placed
from archer.terminal.glyphs import BRACKETS, TAKEN_SIGN, Mark
from archer.terminal.grid import GridView
from support import recorded

GIVENS = "1..4....2....3.."
LEFT, RIGHT = BRACKETS


def view() -> GridView:
    text = grids.lines(GIVENS)
    response = [None if each == "." else ord(each) for each in text[text.index(".") :]]
    return GridView(GIVENS, response, chr, title="saber · tiny")


def drawn(view: GridView, colour: bool = False) -> list[str]:
    console = Console(
        file=io.StringIO(),
        width=100,
        height=25,
        force_terminal=colour,
        color_system="truecolor" if colour else None,
    )
    with console.capture() as capture:
        console.print(view, end="")
    return [line.rstrip() for line in capture.get().split("\n")][:-1]


def placed(at: int, digit: str) -> Placed:
    return Placed(at=at, token=ord(digit), confidence=0.5)


def test_a_cell_is_found_behind_line_breaks() -> None:
    grid = view()
    assert [grid.at(place) for place in (0, 1, 3, 4, 15)] == [-1, 0, 2, 4, 17]
    assert grid.cell(0) == ("1", None)
    assert grid.cell(3) == ("4", None)
    assert grid.cell(4) == ("·", Mark.MASKED)


def test_a_digit_is_placed_and_taken_back() -> None:
    grid = view()
    grid.follow(recorded.update(1, accepted=[placed(0, "3"), placed(1, "2")]))
    assert grid.cell(1) == ("3", Mark.FRESH)
    grid.follow(recorded.update(2, accepted=[placed(4, "3")], remasked=[0]))
    assert (grid.cell(1), grid.cell(2)) == ((TAKEN_SIGN, Mark.TAKEN), ("2", Mark.SETTLED))
    lines = drawn(grid)
    assert lines[0] == "saber · tiny"
    assert lines[1].startswith("given  · masked")
    assert "update" in lines[2]
    assert lines[3:] == [
        "┌──────┬──────┐",
        f"│ 1  {TAKEN_SIGN} │ 2  4 │",
        f"│{LEFT}3{RIGHT} · │ ·  · │",
        "├──────┼──────┤",
        "│ 2  · │ ·  · │",
        "│ ·  3 │ ·  · │",
        "└──────┴──────┘",
    ]
    assert LEFT not in "".join(drawn(grid, colour=True))


def test_what_is_no_digit_is_shown_by_a_sign() -> None:
    grid = view()
    grid.follow(recorded.update(1, accepted=[placed(0, "\x1b"), placed(1, "\n")]))
    assert [grid.cell(place)[0] for place in (1, 2)] == ["?", "?"]
    assert len(set(map(len, drawn(grid)[3:]))) == 1
