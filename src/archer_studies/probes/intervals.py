"""Means, shares and rank correlations of many probes, with intervals that resample whole problems."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from archer.runs.statistics import central
from archer_studies.study import Row

Item = TypeVar("Item")
Triple = tuple[float, float, float]

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


def means(probes: Sequence[Mapping[str, Any]], measures: Mapping[str, float]) -> Row:
    """Of each measure, times its factor; None of nothing."""
    groups, row = by_problem(probes), Row()
    for name, factor in measures.items():
        values = [[factor * each[name] for each in group] for group in groups]
        row[name] = average([value for group in values for value in group])
        row[f"{name}_interval"] = clustered_interval(values, average)
    return row


def correlations(
    probes: Sequence[Row], signals: Sequence[tuple[str, str]], outcomes: Sequence[str]
) -> list[Row]:
    """Each signal with each outcome; `signals` are pairs: a signal, and the one that is held fixed."""
    groups, rows = by_problem(probes), []
    for signal, fixed in signals:
        row: Row = {"part": "correlation", "signal": signal, "given": fixed, "n": len(probes)}
        for outcome in outcomes:
            triples = [
                [(each[signal], each[outcome], each[fixed]) for each in group] for group in groups
            ]
            row[outcome] = _correlation([triple for group in triples for triple in group])
            row[f"{outcome}_interval"] = clustered_interval(triples, _correlation)
        rows.append(row)
    return rows


def _correlation(triples: Sequence[Triple]) -> float | None:
    """None where it is undefined, which JSON can hold."""
    columns = list(zip(*triples, strict=True)) or [(), (), ()]
    value = partial_spearman(*columns)
    return None if math.isnan(value) else value


def partial_spearman(x: Sequence[float], y: Sequence[float], given: Sequence[float]) -> float:
    """Correlation of the ranks of x and y with those of `given` regressed out; NaN where it is undefined."""
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
