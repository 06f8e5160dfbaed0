"""Intervals and tests, against scipy where it has them."""

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.runs.statistics import (
    Pairs,
    bootstrap,
    clustered,
    holm,
    mcnemar,
    mean,
    ratio_of_sums,
    wilson,
)

scipy_stats = pytest.importorskip("scipy.stats", reason="scipy comes with the extra [dev]")
optimize = pytest.importorskip("scipy.optimize", reason="scipy comes with the extra [dev]")


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


def pairs(only_first: int, only_second: int, n: int) -> Pairs:
    """Some n problems with these discordant pairs, half of the others solved by both."""
    both = (n - only_first - only_second) // 2
    neither = n - only_first - only_second - both
    first = [True] * only_first + [False] * only_second + [True] * both + [False] * neither
    second = [False] * only_first + [True] * only_second + [True] * both + [False] * neither
    return Pairs(first, second)


@given(only_first=st.integers(0, 40), only_second=st.integers(0, 40), others=st.integers(0, 40))
def test_pairs_are_counted_and_tested(only_first: int, only_second: int, others: int) -> None:
    found = pairs(only_first, only_second, only_first + only_second + others)
    assert (found.only_first, found.only_second) == (only_first, only_second)
    assert found.both + found.neither == others
    assert found.p == mcnemar(only_first, only_second)
    z = (only_second - only_first) / math.sqrt(max(1, only_first + only_second))
    assert found.z == z, "exactly: rankings break ties by it"


def standard_errors(first: int, second: int, n: int, difference: float) -> float:
    """The slow twin: the likeliest probabilities with this difference, searched and not solved for."""

    def unlikely(rare: float) -> float:
        shares = (rare, rare + difference, 1 - 2 * rare - difference)
        counts = (first, second, n - first - second)
        return -math.fsum(
            k * math.log(max(p, 1e-300)) for k, p in zip(counts, shares, strict=True) if k
        )

    low, high = max(0.0, -difference), (1 - difference) / 2
    grid = [low + (high - low) * step / 4000 for step in range(4001)]
    best = min(grid, key=unlikely)
    step = (high - low) / 4000
    found = optimize.minimize_scalar(
        unlikely,
        bounds=(max(low, best - step), min(high, best + step)),
        method="bounded",
        options={"xatol": 1e-12},
    )
    spread = (2 * found.x + difference - difference**2) / n
    return float(((second - first) / n - difference) / math.sqrt(spread))


@pytest.mark.parametrize(
    ("first", "second", "n"), [(2, 7, 20), (9, 3, 30), (1, 2, 5), (40, 25, 400)]
)
def test_the_ends_of_a_paired_interval_are_where_the_score_test_turns(
    first: int, second: int, n: int
) -> None:
    interval = pairs(first, second, n).interval
    assert interval is not None
    low, high = interval
    assert low < (second - first) / n < high
    assert standard_errors(first, second, n, low) == pytest.approx(1.96, abs=2e-3)
    assert standard_errors(first, second, n, high) == pytest.approx(-1.96, abs=2e-3)


@given(n=st.integers(2, 300), data=st.data())
def test_a_paired_interval_has_a_width_and_a_mirror(n: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, n))
    second = data.draw(st.integers(0, n - first))
    interval, mirrored = pairs(first, second, n).interval, pairs(second, first, n).interval
    assert interval is not None
    assert mirrored is not None
    assert -1 <= interval[0] < interval[1] <= 1
    assert interval[0] == pytest.approx(-mirrored[1], abs=1e-6)
    assert interval[0] - 1e-9 <= (second - first) / n <= interval[1] + 1e-9


def test_of_one_problem_nothing_can_be_said() -> None:
    assert pairs(0, 0, 1).interval is None
    equal = pairs(0, 0, 15).interval
    assert equal is not None
    assert equal[1] == pytest.approx(0.2039, abs=1e-3), "no discordant pair of 15 is not never"


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


def likeliest_loss(wins: int, losses: int, n: int, margin: float) -> float:
    """Chance of "only the second", found by search: wins are `margin` rarer than losses."""
    low, high = margin, (1 + margin) / 2

    def doubt(chance: float) -> float:
        parts = [
            (wins, chance - margin),
            (losses, chance),
            (n - wins - losses, 1 + margin - 2 * chance),
        ]
        if any(share <= 0 for count, share in parts if count):
            return math.inf
        return -sum(count * math.log(share) for count, share in parts if count)

    for _ in range(200):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if doubt(left) < doubt(right) else (left, high)
    return (low + high) / 2


@given(wins=st.integers(0, 40), losses=st.integers(0, 40), concordant=st.integers(1, 900))
def test_not_worse_is_the_score_test(wins: int, losses: int, concordant: int) -> None:
    """Tango's closed form against a search for the likeliest variance."""
    n, margin = wins + losses + concordant, 0.02
    chance = likeliest_loss(wins, losses, n, margin)
    variance = n * (2 * chance - margin - margin**2)
    z = (wins - losses + n * margin) / math.sqrt(variance)
    assert pairs(wins, losses, n).not_worse(margin) == pytest.approx(
        scipy_stats.norm.sf(z), abs=1e-4
    )


def test_not_worse_at_the_margin_and_without_problems() -> None:
    assert pairs(0, 4, 200).not_worse(0.02) == pytest.approx(0.5)
    assert pairs(0, 0, 0).not_worse(0.02) == 1.0
    assert pairs(0, 0, 1000).not_worse(0.02) < 1e-4
    assert pairs(0, 0, 50).not_worse(0.0) == 1.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_step_by_step(chances: list[float]) -> None:
    adjusted = holm(chances)
    for level in (0.01, 0.05, 0.5):
        rejected = 0
        for place, chance in enumerate(sorted(chances)):
            if chance > level / (len(chances) - place):
                break
            rejected += 1
        assert sum(each <= level + 1e-12 for each in adjusted) == rejected


def test_clusters_of_one_are_the_bootstrap_over_problems() -> None:
    outcomes = [number % 3 == 0 for number in range(60)]
    plain = bootstrap([(float(each), 1.0) for each in outcomes], ratio_of_sums)
    assert clustered(outcomes, range(60)) == plain


def test_copies_of_a_problem_say_no_more_than_one() -> None:
    """Ten copies of each outcome: the interval of the clusters stays, that of the rows would shrink."""
    outcomes = [number % 3 == 0 for number in range(60)]
    rows = [outcome for outcome in outcomes for _ in range(10)]
    low, high = clustered(rows, [number // 10 for number in range(600)])
    assert (low, high) == clustered(outcomes, range(60))
    narrow = wilson(sum(rows), len(rows))
    assert high - low > 2 * (narrow[1] - narrow[0])


def test_outcomes_that_are_all_alike_have_the_interval_of_their_clusters() -> None:
    assert clustered([True] * 30, [number // 10 for number in range(30)]) == wilson(3, 3)
    assert clustered([False] * 30, [number // 10 for number in range(30)]) == wilson(0, 3)
