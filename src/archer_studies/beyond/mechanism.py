"""Where cached decisions part from fresh ones, and whether distance or surprise predicts it."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from archer.pages.figures import Labels, lines
from archer.pages.page import Presented
from archer.pages.tables import Field, Table, series, table_of
from archer.runs.workspace import Workspace
from archer_studies.beyond.refresh import FIFTHS
from archer_studies.paper.validity import probe
from archer_studies.probes.intervals import correlations, means
from archer_studies.study import Measured, Row

TITLE = "Why a fixed radius refreshes at the wrong time"
ABOUT = "Where cached decisions part from fresh ones, and whether surprise or distance tells it"
RADIUS = 8
PARTED = "parted"
MEASURES = {PARTED: 100.0, "distance": 1.0, "surprise": 1.0}
"""What is told of the calls in a bin, and by which factor."""
NATS = (0.0, 0.01, 0.1, 0.3, 1.0, math.inf)
"""Bounds of the bins of surprise."""
HALVES = ("first half", "second half")
KEPT = ("part", "problem", "update", "distance", "surprise")
SIGNALS = (("distance", "surprise"), ("surprise", "distance"))
"""Each with the one that is held fixed."""


def measure(workspace: Workspace) -> Measured:
    few = min(workspace.scale.probed, workspace.scale.problems)
    task = workspace.dev_task or workspace.task
    arm = workspace.arm("archer", task, few, radius=RADIUS)
    request = workspace.again(arm)
    probes = [
        {**{name: row[name] for name in KEPT}, PARTED: row["disagreement"], "when": row["when"]}
        for key, prompt in workspace.prompts(request).items()
        for row in probe(request, arm, key, prompt)
        if row["part"] == "probe"
    ]
    rows = [
        *by_fifth(probes),
        *by_distance(probes),
        *by_surprise(probes),
        *correlations(probes, SIGNALS, [PARTED]),
    ]
    settings = {"radius": RADIUS, "task": task, "problems": len(arm.keys)}
    return Measured(len(probes), [*rows, *probes], settings)


def by_fifth(probes: Sequence[Row]) -> list[Row]:
    """Of the trajectory."""
    fifths: list[list[Row]] = [[] for _ in range(FIFTHS)]
    for row in probes:
        fifths[int(FIFTHS * row["when"])].append(row)
    return [_summary("fifth", f"{number}.", each) for number, each in enumerate(fifths, start=1)]


def by_distance(probes: Sequence[Row]) -> list[Row]:
    """Each half of the trajectory by itself: the same distance means less in the first."""
    return [
        _summary(
            half,
            str(distance),
            [row for row in probes if (row["when"] >= 0.5, row["distance"]) == (late, distance)],
        )
        for late, half in enumerate(HALVES)
        for distance in range(1, RADIUS)
    ]


def by_surprise(probes: Sequence[Row]) -> list[Row]:
    rows = []
    for low, high in pairwise(NATS):
        name = f"{low:g} to {high:g}" if high < math.inf else f"from {low:g}"
        inside = [row for row in probes if low <= row["surprise"] < high]
        rows.append(_summary("surprise", name, inside))
    return rows


def _summary(part: str, name: str, probes: Sequence[Row]) -> Row:
    return {"part": part, "bin": name, "n": len(probes), **means(probes, MEASURES)}


def present(result: Mapping[str, Any]) -> Presented:
    settings = result["settings"]
    where = (
        f"on {settings['task']}, n = {result['n']} cached calls of {settings['problems']} problems"
    )
    rows = result["rows"]
    tables = [
        _binned(f"By fifth of the trajectory {where}", "fifth", _part(rows, "fifth")),
        _binned(f"By surprise {where}", "nats", _part(rows, "surprise")),
        _predicted(where, _part(rows, "correlation")),
    ]
    fifths = _part(rows, "fifth")
    parted = [series("cached decisions that part", _bins(fifths), fifths, "parted")]
    halves = [
        series(half, _bins(inside), inside, "surprise")
        for half in HALVES
        if (inside := _part(rows, half))
    ]
    where_parted = Labels(
        "Where cached decisions part", "fifth of the trajectory", "calls that part (%)"
    )
    by_distance = Labels(
        "Surprise by distance", "distance from the anchor (tokens)", "surprise (nats)"
    )
    figures = {"parted": lines(parted, where_parted), "surprise": lines(halves, by_distance)}
    return Presented(tables, figures)


def _part(rows: Sequence[Row], name: str) -> list[Row]:
    return [row for row in rows if row["part"] == name and row["n"]]


def _bins(rows: Sequence[Row]) -> list[str]:
    return [row["bin"] for row in rows]


def _binned(title: str, first: str, rows: Sequence[Row]) -> Table:
    return table_of(
        title,
        (
            Field("bin", first),
            Field("n", "calls"),
            Field("parted", "parted (%)", 1),
            Field("distance", digits=1),
            Field("surprise", "surprise (nats)"),
        ),
        rows,
        [
            f"Archer with K = {RADIUS}. Parted: a full pass from the same state would have accepted or taken "
            "back something else. Surprise: nats of the tokens placed since the anchor under its logits.",
        ],
    )


def _predicted(where: str, rows: Sequence[Row]) -> Table:
    return table_of(
        f"What tells a call that parts, {where}",
        (Field("signal"), Field("given"), Field("parted", "rank correlation with parting", 3)),
        rows,
        ["Partial Spearman correlations: the other signal is held fixed."],
    )
