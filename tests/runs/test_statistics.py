"""Intervals and tests, against scipy where it has them."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.runs.statistics import bootstrap, geometric_mean, mcnemar, mean, wilson

scipy_stats = pytest.importorskip("scipy.stats", reason="scipy comes with the extra [eval]")


@given(only_first=st.integers(0, 60), only_second=st.integers(0, 60))
def test_mcnemar_is_the_exact_binomial(only_first: int, only_second: int) -> None:
    discordant = only_first + only_second
    expected = 1.0
    if discordant:
        expected = scipy_stats.binomtest(only_first, discordant, 0.5).pvalue
    assert mcnemar(only_first, only_second) == pytest.approx(expected, rel=1e-9)


def test_the_papers_matched_pairs() -> None:
    assert mcnemar(23, 18) == pytest.approx(0.53, abs=0.005)


@given(n=st.integers(1, 500), data=st.data())
def test_wilson_is_scipys(n: int, data: st.DataObject) -> None:
    passed = data.draw(st.integers(0, n))
    expected = scipy_stats.binomtest(passed, n).proportion_ci(method="wilson")
    low, high = wilson(passed, n)
    assert low == pytest.approx(expected.low, abs=1e-9)
    assert high == pytest.approx(expected.high, abs=1e-9)
    assert low <= passed / n <= high


def test_nothing_known_is_everything_possible() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


def test_the_bootstrap_covers_and_repeats_itself() -> None:
    values = [Random(number).gauss(10, 2) for number in range(200)]
    low, high = bootstrap(values, mean)
    half = 1.96 * 2 / math.sqrt(200)
    assert low < mean(values) < high
    assert (high - low) / 2 == pytest.approx(half, rel=0.25)
    assert bootstrap(values, mean) == (low, high)
    assert bootstrap(values, mean, seed=1) != (low, high)


def test_the_geometric_mean_of_ratios() -> None:
    assert geometric_mean([2.0, 0.5, 4.0]) == pytest.approx(4 ** (1 / 3))
