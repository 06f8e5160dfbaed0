"""Probes of many problems in numbers: means, and what a signal tells of an outcome, with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from archer_studies.clusters import average, by_problem, clustered_interval
from archer_studies.rank_correlation import partial_spearman
from archer_studies.study import Row

Triple = tuple[float, float, float]


def means(probes: Sequence[Row], measures: Mapping[str, float]) -> Row:
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
