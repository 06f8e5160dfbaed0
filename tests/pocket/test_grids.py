"""Sudoku grids: when one is right, and published sets that are refused when damaged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.errors import BadRequest
from archer.pocket import grids

SOLUTION = "1234341221434321"
GIVENS = "1..4....2....3.."


def test_a_solution_solves_and_keeps_what_was_given() -> None:
    assert grids.solves(SOLUTION, GIVENS)
    assert not grids.solves(SOLUTION, "2" + GIVENS[1:])
    assert not grids.solves(SOLUTION[:-1], GIVENS)
    assert not grids.solves("", "")
    assert not grids.solves(GIVENS, GIVENS)


@given(st.data())
def test_any_other_digit_is_wrong(data: st.DataObject) -> None:
    place = data.draw(st.integers(0, 15))
    digit = data.draw(st.sampled_from([each for each in "12345. x" if each != SOLUTION[place]]))
    assert not grids.solves(SOLUTION[:place] + digit + SOLUTION[place + 1 :], grids.EMPTY * 16)


@pytest.mark.parametrize("size", grids.BOXES)
def test_every_cell_is_in_a_row_a_column_and_a_box(size: int) -> None:
    places = [place for unit in grids.units(size) for place in unit]
    assert all(places.count(place) == 3 for place in range(size**2))
    assert all(len(set(unit)) == size for unit in grids.units(size))


def test_a_grid_is_written_by_lines() -> None:
    assert grids.lines(GIVENS) == "1..4\n....\n2...\n.3.."
    assert [grids.size_of(grids.EMPTY * cells) for cells in (16, 36, 81, 25)] == [4, 6, 9, 0]


def test_damaged_sets_are_refused() -> None:
    with pytest.raises(BadRequest, match="The dev set of pocket-sudoku is damaged"):
        grids.parse(b"{}\n", "dev")


def test_a_grid_may_be_typed_in_lines_or_in_one_with_points_or_zeros() -> None:
    spaced = " 1 0 0 4\r\n0000\n\n2..." + "\t.3.."
    for text in (GIVENS, grids.lines(GIVENS), GIVENS.replace(".", "0"), spaced):
        assert grids.typed(text) == GIVENS
    assert grids.typed("0" * 81) == grids.EMPTY * 81


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "A grid has 16, 36 or 81 cells, not 0. Write a point or a zero for every empty cell."),
        (GIVENS[:-1], "A grid has 16, 36 or 81 cells, not 15."),
        ("x" + GIVENS[1:], "'x' cannot stand in a grid. Write digits, and points or zeros for"),
        ("\u0663" + GIVENS[1:], "'\u0663' cannot stand in a grid."),
        ("5" + GIVENS[1:], "A grid of 4x4 has the digits from 1 to 4, not 5. Correct that cell."),
        ("1..1" + GIVENS[4:], "Row 1 has the digit 1 more than once, so the grid has no solution."),
        ("2" + GIVENS[1:], "Column 1 has the digit 2 more than once"),
        ("1..4.1" + GIVENS[6:], "Box 1 has the digit 1 more than once"),
        (SOLUTION, "Every cell of the grid is given. Write a point or a zero where a digit is"),
    ],
)
def test_what_is_no_puzzle_is_refused_with_a_remedy(text: str, sentence: str) -> None:
    with pytest.raises(BadRequest) as caught:
        grids.typed(text)
    assert str(caught.value).startswith(sentence)


@given(st.data())
def test_whatever_is_taken_away_from_a_solution_is_laid_out_around_it(data: st.DataObject) -> None:
    empty = data.draw(st.sets(st.integers(0, 15), min_size=1))
    text = "".join("0" if place in empty else SOLUTION[place] for place in range(16))
    fill = grids.fill(grids.typed(text))
    assert isinstance(fill.length, tuple)
    assert sum(fill.length) == len(empty)
    assert all(fill.parts[1:-1]), "neighbours are one gap"
    behind = zip(fill.length, fill.parts[1:], strict=True)
    whole = f"{fill.parts[0]}" + "".join(f"{'.' * length}{part}" for length, part in behind)
    assert whole == grids.lines(text.replace("0", "."))
    assert fill.prompt == "a 4x4 grid"


def test_a_model_fills_the_grids_that_it_has_words_for() -> None:
    assert grids.known({"a 9x9 grid": 1, "a 4x4 grid": 2, "a": 3}) == [4, 9]
    assert grids.known({"a", "grid"}) == []
