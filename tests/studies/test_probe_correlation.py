"""Partial rank correlation (invariant 33) and intervals over whole problems."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.pages.tables import Field, Value
from archer_studies.probes.intervals import (
    average,
    by_problem,
    clustered_interval,
    partial_spearman,
    pearson,
    ranks,
)

Triples = list[tuple[int, int, int]]
TRIPLES = st.lists(st.tuples(*(st.integers(0, 6),) * 3), min_size=4, max_size=30)


def residual(of: Sequence[float], given: Sequence[float]) -> list[float]:
    """What a straight line over `given` leaves."""
    slope, offset = np.polyfit(given, of, 1)
    return [float(y - slope * x - offset) for x, y in zip(given, of, strict=True)]


@given(TRIPLES)
def test_it_is_the_correlation_of_what_the_ranks_leave(triples: Triples) -> None:
    x, y, z = zip(*triples, strict=True)
    found = partial_spearman(x, y, z)
    if math.isnan(found):
        return
    left = [residual(ranks(values), ranks(z)) for values in (x, y)]
    assert found == pytest.approx(pearson(*left), abs=1e-6)


@given(TRIPLES)
def test_reversing_one_variable_changes_the_sign(triples: Triples) -> None:
    x, y, z = zip(*triples, strict=True)
    found = partial_spearman(x, y, z)
    for other in (
        partial_spearman([-value for value in x], y, z),
        partial_spearman(x, [-value for value in y], z),
    ):
        assert other == pytest.approx(-found, abs=1e-9, nan_ok=True)
    fixed = partial_spearman(x, y, [-value for value in z])
    assert fixed == pytest.approx(found, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("constant", [0, 1, 2])
def test_a_constant_variable_has_none(constant: int) -> None:
    columns = [[1.0, 2.0, 4.0, 3.0], [2.0, 1.0, 3.0, 4.0], [4.0, 1.0, 2.0, 3.0]]
    assert not math.isnan(partial_spearman(*columns))
    columns[constant] = [5.0] * 4
    assert math.isnan(partial_spearman(*columns))


def test_a_variable_that_the_fixed_one_tells_has_none() -> None:
    assert math.isnan(partial_spearman([1, 2, 3], [2, 1, 3], [10, 20, 30]))
    assert math.isnan(partial_spearman([], [], []))


def test_equal_values_share_their_ranks() -> None:
    assert ranks([3.0, 1.0, 3.0, 7.0]) == [2.5, 1.0, 2.5, 4.0]


def test_problems_are_resampled_whole() -> None:
    groups = [[0.0] * 50, [1.0] * 50]
    assert clustered_interval(groups, average) == [0.0, 1.0]
    assert clustered_interval([[2.0], [2.0]], average) == [2.0, 2.0]
    assert clustered_interval(groups, average) == clustered_interval(groups, average)


def test_without_problems_or_a_value_there_is_no_interval() -> None:
    assert clustered_interval([[1.0, 2.0]], average) is None
    assert clustered_interval([], average) is None
    assert clustered_interval([[1.0], []], average) is None, "undefined in a quarter of the draws"
    assert clustered_interval([[1.0], [2.0]], lambda _: math.nan) is None
    assert average([]) is None


def test_rows_are_grouped_by_problem() -> None:
    rows = [{"problem": "b", "x": 1}, {"problem": "a", "x": 2}, {"problem": "b", "x": 3}]
    assert [[row["x"] for row in group] for group in by_problem(rows)] == [[1, 3], [2]]


def test_a_cell_has_an_interval_and_a_published_figure_if_there_are_such() -> None:
    row = {"x": 1.0, "x_interval": [0.5, 2.0], "y": None, "name": "z"}
    assert Field("x", paper=1).cell(row, (7.0, 3.0)) == Value(1.0, 0.5, 2.0, 3.0)
    assert Field("x", paper="a").cell(row, {"a": 4.0}) == Value(1.0, 0.5, 2.0, 4.0)
    assert Field("x", paper="b").cell(row, {"a": 4.0}) == Value(1.0, 0.5, 2.0)
    assert Field("y", paper=0).cell(row, ()) == Field("missing").cell(row, ()) == Value(None)
    assert Field("name").cell(row, ()) == "z"
    assert Field("", of=lambda row: 2 * row["x"]).cell(row, ()) == 2.0
