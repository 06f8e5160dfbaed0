"""How well requests were served, in terms that measurements and simulations share."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PATIENCE = 3.0
"""A request is served well when it ends within this many times the time it takes alone."""


@dataclass(frozen=True, kw_only=True)
class ServiceOutcome:
    """Of requests that were answered, in seconds."""

    requests: int
    mean: float
    p50: float
    p99: float
    slowdown: float
    """99 of 100 take at most this many times the time they take alone."""
    in_time: float
    """Fraction of the requests that end within three times the time alone."""
    throughput: float
    """Requests per second, from the first arrival to the last end."""
    goodput: float
    """The same of those in time."""


def figures(waits: Sequence[float], alone: Sequence[float], span: float) -> dict[str, Any]:
    """The fields of an outcome, from what each request took, takes alone, and how long all took together."""
    slow = [wait / own for wait, own in zip(waits, alone, strict=True)]
    good = sum(ratio <= PATIENCE for ratio in slow)
    return {
        "requests": len(waits),
        "mean": statistics.mean(waits),
        "p50": percentile(waits, 50),
        "p99": percentile(waits, 99),
        "slowdown": percentile(slow, 99),
        "in_time": good / len(waits),
        "throughput": len(waits) / span,
        "goodput": good / span,
    }


def percentile(values: Sequence[float], percent: int) -> float:
    """By linear interpolation between the sorted values."""
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
