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
