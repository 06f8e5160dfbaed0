"""How long a pass takes, given the shares in it: by the roofline of a GPU, or fitted to timed passes."""

from __future__ import annotations

import functools
import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from archer.costs.roofline import BYTES, Gpu, kv_numbers, weights_read
from archer.costs.workload import PassShare
from archer.errors import BadRequest
from archer.network.network import Shape
from archer.passes.work import Work, operations


class PassTimes(Protocol):
    """Seconds of one turn: the pass, and the decisions about its rows."""

    def seconds(self, shares: Sequence[PassShare]) -> float: ...


@dataclass(frozen=True)
class Losses:
    """What a GPU loses against its data sheet; assumptions, not measurements."""

    efficiency: float = 0.5
    """Part of the vendor's figures that a pass reaches."""
    per_pass: float = 1e-3
    """Seconds around every pass."""
    per_row: float = 3e-4
    """Seconds that the host spends on the decisions about a row."""


@dataclass(frozen=True)
class Roofline:
    """The longer of arithmetic and memory traffic of all shares together, less what is lost."""

    gpu: Gpu
    shape: Shape
    losses: Losses = Losses()
    _known: dict[PassShare, tuple[int, int]] = field(
        default_factory=dict, init=False, compare=False
    )

    def seconds(self, shares: Sequence[PassShare]) -> float:
        arithmetic = numbers = 0
        for share in shares:
            if share.columns:
                computed, read = self._known.get(share) or self._counted(share)
                arithmetic += computed
                numbers += read
        lost = self.losses
        control = lost.per_row * len(shares)
        if not arithmetic:
            return control
        traffic = (self._weights + numbers) * BYTES / self.gpu.bandwidth
        least = max(arithmetic / self.gpu.flops, traffic)
        return least / lost.efficiency + lost.per_pass + control

    @functools.cached_property
    def _weights(self) -> int:
        return weights_read(self.shape)

    def _counted(self, share: PassShare) -> tuple[int, int]:
        """Operations of a share, and numbers that it reads beside the weights."""
        self._known[share] = (
            share_operations(self.shape, share),
            kv_numbers(self.shape, share.keys),
        )
        return self._known[share]


def share_operations(shape: Shape, share: PassShare) -> int:
    """Multiplications and additions of one share; equal to what the engine's counters count."""
    layers, columns = shape.layers, share.columns
    mixed = (layers - 1) * columns + share.scored
    routed = 0
    if shape.experts is not None:
        routed = (layers - 1 - shape.dense_layers) * columns + share.scored
    work = Work(
        keys=layers * columns,
        values=layers * columns,
        mixed=mixed,
        pairs=mixed * share.keys,
        scored=share.scored,
        routed=routed,
    )
    return operations(work, shape)


@dataclass(frozen=True)
class Timed:
    """One turn that was timed."""

    shares: tuple[PassShare, ...]
    seconds: float


@dataclass(frozen=True)
class Fitted:
    """Seconds as a sum of costs: of a turn, a row, a column, a query-key pair, a scored column."""

    per_turn: float
    per_row: float
    per_column: float
    per_pair: float
    per_scored: float
    error: float = 0.0
    """Median distance from what was timed, as a part of it."""

    def seconds(self, shares: Sequence[PassShare]) -> float:
        total = self.per_turn
        for share in shares:
            total += self.per_row + share.columns * (self.per_column + self.per_pair * share.keys)
            total += self.per_scored * share.scored
        return total

    @classmethod
    def to(cls, timed: Sequence[Timed]) -> Fitted:
        """The costs, none below zero, nearest to what was timed in relative terms; every set is tried."""
        if len(timed) < MOST_COSTS:
            raise BadRequest(
                f"Pass times are fitted to at least {MOST_COSTS} timed passes, and here are {len(timed)}."
            )
        seconds = np.array([each.seconds for each in timed])
        features = np.array([_features(each.shares) for each in timed])
        relative, ones = features / seconds[:, None], np.ones(len(timed))
        best, least = np.zeros(MOST_COSTS), np.inf
        for size in range(1, MOST_COSTS + 1):
            for kept in itertools.combinations(range(MOST_COSTS), size):
                costs = np.zeros(MOST_COSTS)
                costs[list(kept)] = np.linalg.lstsq(relative[:, kept], ones, rcond=None)[0]
                missed = float(((relative @ costs - 1.0) ** 2).sum())
                if (costs >= 0).all() and missed < least:
                    best, least = costs, missed
        error = statistics.median(np.abs(relative @ best - 1.0).tolist())
        turn, row, column, pair, scored = best.tolist()
        return cls(turn, row, column, pair, scored, error)


MOST_COSTS = 5


def _features(shares: Sequence[PassShare]) -> list[float]:
    return [
        1.0,
        len(shares),
        sum(share.columns for share in shares),
        sum(share.columns * share.keys for share in shares),
        sum(share.scored for share in shares),
    ]
