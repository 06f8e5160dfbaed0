"""Arms beside others at equal cost: against a slow twin, and cases whose answer is known."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archer.runs.statistics import central
from archer_studies.equal_cost import Spent, efficient, gain, ratio

arms = st.integers(2, 12).flatmap(
    lambda n: st.lists(
        st.builds(
            Spent,
            st.lists(st.booleans(), min_size=n, max_size=n),
            st.lists(st.integers(1, 9), min_size=n, max_size=n),
        ),
        min_size=2,
        max_size=4,
    )
)


def at(cost: float, points: list[tuple[float, float]]) -> float:
    """The line through (cost, score) points, level outside of them."""
    ordered = sorted(points, key=lambda point: point[0])
    if cost <= ordered[0][0]:
        return next(score for price, score in reversed(ordered) if price == ordered[0][0])
    for (low, below), (high, above) in itertools.pairwise(ordered):
        if low < cost <= high:
            return below + (above - below) * (cost - low) / (high - low)
    return ordered[-1][1]


@settings(max_examples=40)
@given(arms)
def test_the_gain_is_that_of_a_line_drawn_anew_in_every_draw(given: list[Spent]) -> None:
    arm, *others = given
    n, draws = len(arm.solved), 30
    found = gain(arm, others, draws=draws, seed=3)
    counts = np.random.default_rng(3).multinomial(n, np.full(n, 1 / n), size=draws)
    gains = []
    for weights in ([1] * n, *counts.tolist()):
        means = [
            tuple(
                sum(weight * value for weight, value in zip(weights, values, strict=True)) / n
                for values in (each.operations, each.solved)
            )
            for each in given
        ]
        tied = len({cost for cost, _ in means[1:]}) < len(others)
        gains.append(np.nan if tied else 100 * (means[0][1] - at(means[0][0], means[1:])))
    if np.isnan(gains).any():
        return
    assert found.points == pytest.approx(gains[0], abs=1e-9)
    assert found.interval == pytest.approx(central(gains[1:]), abs=1e-9)
    least = min(sum(each <= 1e-12 for each in gains[1:]), sum(each >= -1e-12 for each in gains[1:]))
    assert found.p <= min(1.0, 2 * (least + 1) / (draws + 1))


def test_an_arm_beside_itself_gains_nothing() -> None:
    arm = Spent([True, False, True, True], [4, 5, 6, 7])
    found = gain(arm, [arm], draws=200)
    assert (found.points, found.interval, found.p) == (0.0, (0.0, 0.0), 1.0)


def test_half_of_the_way_between_two_arms_is_half_of_their_difference() -> None:
    cheap, dear = Spent([False] * 100, [1] * 100), Spent([True] * 100, [3] * 100)
    found = gain(Spent([True] * 80 + [False] * 20, [2] * 100), [dear, cheap], draws=500)
    assert found.points == pytest.approx(30.0)
    assert 15 < found.interval[0] < 30 < found.interval[1] < 45
    assert found.p == pytest.approx(2 / 501)
    beyond = gain(Spent([True] * 80 + [False] * 20, [9] * 100), [cheap, dear], draws=50)
    assert beyond.points == pytest.approx(-20.0)


def test_costs_are_ratios_of_sums() -> None:
    cost, (low, high) = ratio(Spent([True] * 3, [1, 2, 3]), Spent([True] * 3, [2, 4, 6]))
    assert (cost, low, high) == (0.5, 0.5, 0.5)


def test_only_arms_that_solve_more_than_every_cheaper_one_are_efficient() -> None:
    a, b, c = (Spent([True] * k + [False] * (3 - k), [p] * 3) for k, p in ((1, 1), (1, 2), (2, 3)))
    assert efficient([c, b, a]) == [a, c]
