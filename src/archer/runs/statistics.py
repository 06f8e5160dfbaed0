"""Intervals and paired tests, on plain numbers."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
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


def tango_z(only_first: int, only_second: int, n: int, difference: float) -> float:
    """Tango's score test (1998): how far counts are from a difference of shares, second minus first."""
    slope = (2 * n - only_second + only_first) * difference - only_first - only_second
    product = 8 * n * only_first * difference * (1 - difference)
    rare = (math.sqrt(max(0.0, slope * slope + product)) - slope) / 2
    variance = rare + n * difference * (1 - difference)
    gap = only_second - only_first - n * difference
    return gap / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, gap)


@dataclass(frozen=True)
class Pairs:
    """Two yes-or-no outcomes of the same problems, and what the discordant ones say about a difference."""

    first: Sequence[bool]
    second: Sequence[bool]

    @cached_property
    def _counts(self) -> Counter[tuple[bool, bool]]:
        return Counter(zip(self.first, self.second, strict=True))

    @property
    def n(self) -> int:
        return len(self.first)

    @property
    def both(self) -> int:
        return self._counts[True, True]

    @property
    def only_first(self) -> int:
        return self._counts[True, False]

    @property
    def only_second(self) -> int:
        return self._counts[False, True]

    @property
    def neither(self) -> int:
        return self._counts[False, False]

    @property
    def p(self) -> float:
        """Exact McNemar, two-sided."""
        return mcnemar(self.only_first, self.only_second)

    @property
    def z(self) -> float:
        """McNemar's z, above 0 where the second holds more often; 0 without a discordant pair."""
        discordant = self.only_first + self.only_second
        return tango_z(self.only_first, self.only_second, self.n, 0.0) if discordant else 0.0

    @property
    def interval(self) -> Interval | None:
        """Tango's 95 % interval of the second share minus the first; None of one problem."""
        if self.n < 2:
            return None
        seen = (self.only_second - self.only_first) / self.n

        def distance(difference: float) -> float:
            return tango_z(self.only_first, self.only_second, self.n, difference)

        return (
            _crossing(distance, NORMAL_95, -1.0, seen),
            _crossing(distance, -NORMAL_95, seen, 1.0),
        )

    def not_worse(self, margin: float) -> float:
        """One-sided p of "the first share is lower than the second by `margin` or more"."""
        if not self.n:
            return 1.0
        z = tango_z(self.only_first, self.only_second, self.n, margin)
        return 0.5 * math.erfc(-z / math.sqrt(2))


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


def clustered(outcomes: Sequence[bool], clusters: Sequence[Hashable]) -> Interval:
    """95 % interval of a share whose outcomes depend on each other within a cluster: these are resampled.

    Where all outcomes are alike resampling has no width, and Wilson's interval of the clusters stands in.
    """
    wins, sizes = Counter[Hashable](), Counter(clusters)
    for outcome, cluster in zip(outcomes, clusters, strict=True):
        wins[cluster] += outcome
    if wins.total() in (0, len(outcomes)):
        return wilson(len(sizes) if wins.total() else 0, len(sizes))
    return bootstrap([(wins[each], size) for each, size in sizes.items()], ratio_of_sums)


def central(drawn: Sequence[float]) -> Interval:
    """The middle 95 % of some numbers."""
    ordered, cut = sorted(drawn), int(0.025 * len(drawn))
    return ordered[cut], ordered[-1 - cut]


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def ratio_of_sums(pairs: Sequence[tuple[float, float]]) -> float:
    """Of the first numbers over the second ones."""
    return math.fsum(a for a, _ in pairs) / math.fsum(b for _, b in pairs)


def holm(chances: Sequence[float], tests: int | None = None) -> list[float]:
    """The same p values, adjusted for the number of tests: which of them hold together at a level.

    Where more tests were planned than made, those that are missing count as p = 1.
    """
    order = sorted(range(len(chances)), key=chances.__getitem__)
    adjusted, highest = [0.0] * len(chances), 0.0
    planned = max(len(chances), tests or 0)
    for place, index in enumerate(order):
        highest = max(highest, min(1.0, (planned - place) * chances[index]))
        adjusted[index] = highest
    return adjusted
