"""Rows made by hand: bins, paired tests, conditions and runs as they are summarised."""

import pytest

from archer_studies.paper import feedback, theory, validity
from archer_studies.probes import bounds
from archer_studies.probes.intervals import correlations
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
