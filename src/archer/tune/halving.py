"""Successive halving for two aims at once, score and cost; pure, and without a clock.

In every round those who are left solve more problems, the same for all, and the less promising half leaves.
With two aims nobody is simply worse than another: a candidate leaves the sooner the more clearly another one
solves more of the same problems at no higher counted cost.

Times enter by a `Calibration` that was measured once and recorded: it turns counted operations into
seconds, so who goes on, and how many problems a round has, follow from what is recorded.  An interrupted
search that is continued takes the same way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from archer.runs.statistics import Pairs

FINALISTS = 8
"""Nobody leaves any more when so few are left: a frontier needs points."""
CALIBRATED = 2
"""Problems of which counted operations and seconds are learnt before anything is planned."""


@dataclass(frozen=True)
class Seen:
    """What a candidate did, problem by problem; the others the same problems in the same order."""

    solved: tuple[bool, ...] = ()
    operations: tuple[int, ...] = ()

    @property
    def score(self) -> float:
        """Share of the problems solved."""
        return sum(self.solved) / len(self.solved)

    @property
    def cost(self) -> int:
        """Operations of all problems."""
        return sum(self.operations)

    def __add__(self, other: Seen) -> Seen:
        return Seen(self.solved + other.solved, self.operations + other.operations)


@dataclass(frozen=True)
class Calibration:
    """What the calibration found, for turning counts into seconds."""

    seconds_per_operation: Mapping[str, float]
    """Of each candidate: small passes take longer than their operations say."""
    seconds_per_run: float
    """What every run takes besides decoding."""
    workers: int = 1
    """Problems that are solved side by side."""

    def seconds(self, label: str, seen: Seen, problems: int) -> float:
        """What N problems take, if they are like those seen so far."""
        each = seen.cost / len(seen.operations) * self.seconds_per_operation[label]
        return math.ceil(problems / self.workers) * each + self.seconds_per_run


def rounds(candidates: int, finalists: int = FINALISTS) -> list[int]:
    """How many take part in each round: all of them, then always half, until few are left."""
    counts = [candidates]
    while counts[-1] > finalists:
        counts.append(max(finalists, math.ceil(counts[-1] / 2)))
    return counts


def outdone(mine: Seen, other: Seen) -> float:
    """How clearly another one solves more of the same problems, in standard errors: McNemar's z."""
    return Pairs(mine.solved, other.solved).z


def dominated(label: str, seen: Mapping[str, Seen]) -> float:
    """How clearly the best of those that cost no more outdoes this one; who solves nothing is no use."""
    mine = seen[label]
    if not any(mine.solved):
        return math.inf
    rivals = [
        outdone(mine, other)
        for name, other in seen.items()
        if name != label and other.cost <= mine.cost
    ]
    return max(rivals, default=-math.inf)


def ranked(seen: Mapping[str, Seen]) -> list[str]:
    """Most promising first; the order in which they are given plays no part."""

    def place(label: str) -> tuple[float, float, int, str]:
        mine = seen[label]
        return dominated(label, seen), -mine.score, mine.cost, label

    return sorted(seen, key=place)


def survivors(seen: Mapping[str, Seen], keep: int, always: str) -> list[str]:
    """Who goes on, in the order given; `always` does, and is one of them."""
    first = [label for label in ranked(seen) if label != always][: keep - 1]
    return [label for label in seen if label in first or label == always]


def problems(
    seen: Mapping[str, Seen],
    calibration: Calibration,
    seconds: float,
    rounds_left: int,
    unseen: int,
) -> int:
    """How many new problems come next: an equal part of the time's worth, at least one for each worker."""
    runs = math.fsum(calibration.seconds(label, each, 0) for label, each in seen.items())
    one = math.fsum(calibration.seconds(label, each, 1) for label, each in seen.items()) - runs
    room = seconds / rounds_left - runs
    turns = int(room / one) if one > 0 else unseen
    return min(unseen, max(1, turns) * calibration.workers)


def spent(rounds_done: Sequence[Mapping[str, Seen]], calibration: Calibration) -> float:
    """Seconds of all rounds, as the calibration tells them from the counted operations of each."""
    return math.fsum(
        calibration.seconds(label, seen, len(seen.operations))
        for done in rounds_done
        for label, seen in done.items()
    )


LEAST = 4
"""Problems per round below which a search tells nothing."""


def least_seconds(
    seen: Mapping[str, Seen], calibration: Calibration, finalists: int = FINALISTS
) -> float:
    """What the smallest search that is worth it takes, if those who go on are like the average."""
    all_once = math.fsum(calibration.seconds(label, each, LEAST) for label, each in seen.items())
    return spent([seen], calibration) + all_once * sum(rounds(len(seen), finalists)) / len(seen)
