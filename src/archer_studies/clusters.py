"""Intervals of statistics over observations that come in problems: whole problems are resampled."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from archer.pages.tables import Value
from archer.runs.statistics import central

Item = TypeVar("Item")

RESAMPLES = 500
DEFINED = 0.9
"""Share of the resamples in which a statistic must be defined for its interval to be given."""


def by_problem(rows: Iterable[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """The rows of each problem together, in the order of their first appearance."""
    groups: dict[Hashable, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["problem"], []).append(row)
    return list(groups.values())


def clustered_interval(
    groups: Sequence[Sequence[Item]],
    statistic: Callable[[Sequence[Item]], float | None],
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> list[float] | None:
    """95 % percentile interval; None for fewer than two problems or a statistic that is often undefined."""
    if len(groups) < 2:
        return None
    rng = Random(seed)
    drawn = []
    for _ in range(resamples):
        chosen = rng.choices(groups, k=len(groups))
        value = statistic([item for group in chosen for item in group])
        if value is not None and not math.isnan(value):
            drawn.append(value)
    if len(drawn) < DEFINED * resamples:
        return None
    return list(central(drawn))


def average(values: Sequence[float]) -> float | None:
    """The mean; None of nothing."""
    return math.fsum(values) / len(values) if values else None


def cell(row: Mapping[str, Any], name: str, paper: float | None = None) -> Value:
    """A table's cell: `name`, and `name_interval` where there is one."""
    low, high = row.get(f"{name}_interval") or (None, None)
    return Value(row[name], low, high, paper)
