"""What an arm solves beside others at the price that it pays itself.

Two arms of different cost cannot be compared by their scores alone.  The others are a line through their
points, cost against score: a point between two of them is what a user gets who decodes some problems with
the one and the rest with the other.  Below the cheapest of them the line is level, and above the dearest too.
Problems are resampled for all arms alike, and the line is drawn anew in every draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from archer.runs.statistics import Interval, central

Numbers = NDArray[np.float64]
DRAWS = 10_000
PERCENT = 100.0


@dataclass(frozen=True)
class Spent:
    """Of every problem, in one order for all arms: whether it was solved, and what it took."""

    solved: Sequence[bool]
    operations: Sequence[float]


@dataclass(frozen=True)
class Gain:
    """Points that an arm has above the line of the others at its own cost."""

    points: float
    interval: Interval
    """95 %."""
    p: float
    """Two-sided: twice the share of draws on the rarer side of 0."""


def gain(arm: Spent, others: Sequence[Spent], draws: int = DRAWS, seed: int = 0) -> Gain:
    """The arm beside the line through the others; of two arms with equal scores it is 0."""
    n = len(arm.solved)
    counts = _resampled(n, draws, seed)
    scores, costs = zip(*(_means(each, counts) for each in (arm, *others)), strict=True)
    line = [
        np.interp(cost, theirs[order], solved[order])
        for cost, theirs, solved in zip(
            costs[0], np.stack(costs[1:], axis=1), np.stack(scores[1:], axis=1), strict=True
        )
        for order in [theirs.argsort(kind="stable")]
    ]
    above = PERCENT * (scores[0] - np.array(line))
    least = min((above[1:] <= 0).sum(), (above[1:] >= 0).sum())
    return Gain(
        float(above[0]),
        central(above[1:].tolist()),
        float(min(1.0, 2 * (least + 1) / (draws + 1))),
    )


def ratio(arm: Spent, other: Spent, draws: int = DRAWS, seed: int = 0) -> tuple[float, Interval]:
    """The arm's operations over the other's, with a 95 % interval over problems."""
    n = len(arm.operations)
    counts = _resampled(n, draws, seed)[1:]
    mine, theirs = (np.array(each.operations, dtype=np.float64) for each in (arm, other))
    drawn = (counts @ mine) / (counts @ theirs)
    return float(mine.sum() / theirs.sum()), central(drawn.tolist())


def efficient(arms: Sequence[Spent]) -> list[Spent]:
    """Those that solve more than every cheaper one."""
    best, frontier = -1, []
    for each in sorted(arms, key=lambda arm: (sum(arm.operations), -sum(arm.solved))):
        if sum(each.solved) > best:
            best = sum(each.solved)
            frontier.append(each)
    return frontier


@lru_cache(maxsize=2)
def _resampled(n: int, draws: int, seed: int) -> Numbers:
    """[1 + draws, n]: how often each problem is drawn; in the first row once, as it was."""
    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=draws)
    return np.concatenate((np.ones((1, n)), drawn)).astype(np.float64)


def _means(arm: Spent, counts: Numbers) -> tuple[Numbers, Numbers]:
    """[draws] each: the share that is solved, and the operations per problem."""
    n = counts.shape[1]
    solved = np.array(arm.solved, dtype=np.float64)
    operations = np.array(arm.operations, dtype=np.float64)
    return counts @ solved / n, counts @ operations / n
