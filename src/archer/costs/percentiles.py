"""How well requests were served, in terms that measurements and simulations share."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

PATIENCE = 3.0
"""A request is served well when it ends within this many times the time it takes alone."""


def percentile(values: Sequence[float], percent: int) -> float:
    """By linear interpolation between the sorted values."""
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
