"""Rows made by hand: bins, paired tests, correlations of ranks, intervals and runs as they are summarised."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.pages.tables import Field, Value
from archer_studies.paper import feedback, theory, validity
from archer_studies.probes import bounds
from archer_studies.probes.intervals import (
    average,
    by_problem,
    clustered_interval,
    correlations,
    partial_spearman,
    pearson,
    ranks,
)
from archer_studies.study import Row


def test_exclusive_passes_are_counted_by_hand() -> None:
    outcomes = [(True, False), (True, True), (False, True), (False, True)]
    pairs = [
        {
            "fresh": {"passed": {"base": fresh}, "revised_at": 1 + number},
            "cached": {"passed": {"base": cached}, "revised_at": None},
        }
        for number, (fresh, cached) in enumerate(outcomes)
    ]
    fresh, cached, test = feedback.summaries(pairs, ["base"])
    assert (fresh["base"], cached["base"]) == (50.0, 75.0)
    assert (fresh["revised"], cached["revised"]) == (100.0, 0.0)
    assert (fresh["step"], cached["step"]) == (2.5, None)
    assert (test["fresh_only"], test["cached_only"], test["p"]) == (1, 2, 1.0)


def probe(problem: str, distance: int, age: int, disagreement: bool) -> Row:
    return {
        "part": "probe",
        "problem": problem,
        "distance": distance,
        "age": age,
        "disagreement": disagreement,
        "moved": 2 * disagreement,
        "drift": distance / 10,
    }


def test_bins_hold_what_belongs_to_them() -> None:
    rows = [probe("a", 3, 1, False), probe("a", 4, 2, True), probe("b", 7, 3, False)]
    control, first, second, third, last = validity.binned(rows)
    assert [row["n"] for row in (control, first, second, third, last)] == [0, 1, 2, 0, 0]
    assert (second["disagreement"], second["moved"], second["problems"]) == (50.0, 1.0, 2)
    assert second["drift"] == pytest.approx(0.55)
    assert third["disagreement"] is third["disagreement_interval"] is None


def test_a_signal_is_told_from_the_other() -> None:
    rows = [
        probe(problem, distance, age, distance > 6)
        for problem in "abc"
        for distance in range(1, 12)
        for age in (1, 2)
    ]
    distance, age = correlations(rows, validity.SIGNALS, list(validity.OUTCOMES))
    assert distance["disagreement"] > 0.8
    assert age["disagreement"] == pytest.approx(0.0, abs=1e-9)
    assert distance["disagreement_interval"][0] > 0.8
    nothing, _ = correlations([], validity.SIGNALS, list(validity.OUTCOMES))
    assert nothing["drift"] is nothing["drift_interval"] is None


def call(problem: str, distance: int, error: float, margin: float, kept: bool) -> Row:
    return {
        "problem": problem,
        "distance": distance,
        "error": error,
        "margin": margin,
        "kept": kept,
        "stale": [0.0, error],
        "relative": [0.0, error / 10],
    }


CALLS = [
    call("a", 1, 0.5, 1.0, True),
    call("a", 4, 1.0, 0.5, True),
    call("b", 9, 1.5, 1.0, False),
    call("b", 16, 2.0, 4.0, True),
]


def test_an_error_that_grows_with_the_root_gives_its_factor() -> None:
    found = bounds.gamma(CALLS)
    assert found["slope"] == pytest.approx(0.5)
    assert found["bounding"] == pytest.approx(0.5)
    assert found["exponent"] == pytest.approx(0.5)
    assert bounds.layers(CALLS)[1]["slope"] == pytest.approx(0.5)
    first, second = bounds.error_bins(CALLS, [(1, 4), (17, 20)])
    assert (first["n"], first["error"], first["largest"]) == (2, 0.75, 1.0)
    assert second["error"] is second["largest"] is second["ratio"] is None


def test_conditions_are_counted_by_hand() -> None:
    found = bounds.condition("error", CALLS, lambda row: float(row["error"]))
    assert (found["held"], found["kept"], found["without"]) == (50.0, 75.0, 2)
    assert (found["kept_without"], found["broken"], found["margin"]) == (50.0, 0, 1.0)
    wrong = bounds.condition("nothing", CALLS, lambda row: 0.0)
    assert wrong["broken"] == 1


def test_nothing_observed_is_nothing_said() -> None:
    assert bounds.gamma([])["slope"] is bounds.gamma([])["bounding"] is None
    assert bounds.layers([]) == []
    assert bounds.condition("error", [], lambda row: 0.0)["held"] is None
    assert [row["share"] for row in theory.runs([])] == [None] * 3
    assert all(row["mean"] is None for row in theory.event_summary([]))


def test_runs_are_sorted_by_what_held() -> None:
    close, wide = call("a", 1, 0.5, 1.0, True), call("a", 2, 2.0, 1.0, False)
    problems = [
        theory.compared_run("a", [close | {"update": 2}], None),
        theory.compared_run("b", [close | {"update": 2}, wide | {"update": 5}], 5),
        theory.compared_run("c", [wide | {"update": 3, "kept": True}], 2),
    ]
    assert [row["early"] for row in problems] == [False, False, True]
    held, kept, everything = theory.runs(problems)
    assert (held["n"], held["identical"], held["early"]) == (1, 1, 0)
    assert (kept["n"], kept["share"]) == (2, 50.0)
    assert (everything["n"], everything["condition_until"]) == (3, 4.0)
    assert (everything["identical_until"], everything["early"]) == (3.5, 1)


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
