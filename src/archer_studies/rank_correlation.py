"""Spearman correlation of two variables with a third held fixed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence


def partial_spearman(x: Sequence[float], y: Sequence[float], given: Sequence[float]) -> float:
    """Correlation of the ranks of x and y after the ranks of `given` are regressed out of both.

    NaN where it is undefined: a constant variable, or one whose ranks `given` tells completely.
    """
    ranked = [ranks(values) for values in (x, y, given)]
    xy, xz, yz = (pearson(ranked[a], ranked[b]) for a, b in ((0, 1), (0, 2), (1, 2)))
    unexplained = (1.0 - xz * xz) * (1.0 - yz * yz)
    if not unexplained > 1e-12:
        return math.nan
    return (xy - xz * yz) / math.sqrt(unexplained)


def ranks(values: Sequence[float]) -> list[float]:
    """1 for the smallest; equal values share the mean of their ranks."""
    place: dict[float, float] = {}
    before = 0
    for value, times in sorted(Counter(values).items()):
        place[value] = before + (times + 1) / 2
        before += times
    return [place[value] for value in values]


def pearson(x: Sequence[float], y: Sequence[float]) -> float:
    """NaN where one of them is constant."""
    if not x:
        return math.nan
    middle_x, middle_y = math.fsum(x) / len(x), math.fsum(y) / len(y)
    across = math.fsum((a - middle_x) * (b - middle_y) for a, b in zip(x, y, strict=True))
    spread = math.fsum((a - middle_x) ** 2 for a in x) * math.fsum((b - middle_y) ** 2 for b in y)
    return across / math.sqrt(spread) if spread > 0 else math.nan
