"""Intervals and paired tests, on plain numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

Item = TypeVar("Item")
Interval = tuple[float, float]

NORMAL_95 = 1.959963984540054
RESAMPLES = 2000


def wilson(passed: int, n: int) -> Interval:
    """95 % interval of a share; sensible at 0 and at 1, where the textbook one has no width."""
    if n == 0:
        return 0.0, 1.0
    share, square = passed / n, NORMAL_95**2
    centre = (share + square / (2 * n)) / (1 + square / n)
    half = NORMAL_95 / (1 + square / n) * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    low = 0.0 if passed == 0 else max(0.0, centre - half)
    high = 1.0 if passed == n else min(1.0, centre + half)
    return low, high


def mcnemar(only_first: int, only_second: int) -> float:
    """Two-sided exact p of the discordant pairs: are both sides equally likely?"""
    discordant = only_first + only_second
    tail = sum(math.comb(discordant, k) for k in range(min(only_first, only_second) + 1))
    return min(1.0, 2 * tail / (1 << discordant))


def paired_difference(only_first: int, only_second: int, n: int) -> Interval | None:
    """95 % score interval of the second share minus the first, of the same n problems; Tango's.

    It has a width where no pair is discordant, too, because zero of a few is not never. None for one
    problem, about which nothing can be said.
    """
    if n < 2:
        return None
    seen = (only_second - only_first) / n

    def distance(difference: float) -> float:
        """How far the counts are from this difference, in standard errors of it."""
        slope = (2 * n - only_second + only_first) * difference - only_first - only_second
        product = 8 * n * only_first * difference * (1 - difference)
        rare = (math.sqrt(max(0.0, slope * slope + product)) - slope) / (4 * n)
        spread = n * (2 * rare + difference * (1 - difference))
        gap = only_second - only_first - n * difference
        return gap / math.sqrt(spread) if spread > 0 else math.copysign(math.inf, gap)

    return (
        _crossing(distance, NORMAL_95, -1.0, seen),
        _crossing(distance, -NORMAL_95, seen, 1.0),
    )


def _crossing(
    falling: Callable[[float], float], level: float, low: float, high: float, halvings: int = 60
) -> float:
    """Where a falling function reaches a level, by halving."""
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > level else (low, middle)
    return (low + high) / 2


def bootstrap(
    items: Sequence[Item],
    statistic: Callable[[Sequence[Item]], float],
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval:
    """95 % percentile interval of a statistic over resampled items; items are whole problems."""
    rng = Random(seed)
    return central([statistic(rng.choices(items, k=len(items))) for _ in range(resamples)])


def central(drawn: Sequence[float]) -> Interval:
    """The middle 95 % of some numbers."""
    ordered, cut = sorted(drawn), int(0.025 * len(drawn))
    return ordered[cut], ordered[-1 - cut]


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def ratio_of_sums(pairs: Sequence[tuple[float, float]]) -> float:
    """Of the first numbers over the second ones."""
    return math.fsum(a for a, _ in pairs) / math.fsum(b for _, b in pairs)


def geometric_mean(values: Sequence[float]) -> float:
    """Of ratios above 0."""
    return math.exp(mean([math.log(value) for value in values]))


def not_worse(only_first: int, only_second: int, n: int, margin: float) -> float:
    """One-sided p of "the first share is lower than the second by `margin` or more", for paired shares.

    Tango's score test (1998): the variance is the likeliest one under a difference of exactly -margin, so it
    stays sensible where few pairs or none are discordant.
    """
    if n == 0:
        return 1.0
    a = 2.0 * n
    b = -(only_first + only_second) - (2 * n - only_first + only_second) * margin
    c = only_second * margin * (1.0 + margin)
    second = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    variance = n * (2 * second - margin * (1.0 + margin))
    difference = only_first - only_second + n * margin
    if variance <= 0:
        return 0.0 if difference > 0 else 1.0
    return 0.5 * math.erfc(difference / math.sqrt(2 * variance))


def holm(chances: Sequence[float]) -> list[float]:
    """The same p values, adjusted for their number: which of them hold together at a level."""
    order = sorted(range(len(chances)), key=chances.__getitem__)
    adjusted, highest = [0.0] * len(chances), 0.0
    for place, index in enumerate(order):
        highest = max(highest, min(1.0, (len(chances) - place) * chances[index]))
        adjusted[index] = highest
    return adjusted
