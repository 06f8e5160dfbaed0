"""Why a fixed radius refreshes at the wrong time: where cached decisions part, and what predicts it.

Beside every cached call of Archer the same update is made from a full pass and thrown away, as in `validity`.
Each call has two measures of how far the response has gone from the anchor: the distance, and the surprise,
which is what the tokens placed since then carry under the anchor's own logits.

Axes: G response columns, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from archer.pages.figures import Labels, Series, lines
from archer.pages.tables import Column, Table
from archer.passes.canvas import Ints
from archer.results.step import Kind, Step
from archer.runs.manifest import RunRequest
from archer.runs.workspace import Arm, Workspace
from archer_studies.clusters import cell
from archer_studies.probed import correlations, means
from archer_studies.refresh import FIFTHS
from archer_studies.shadow_passes import require_unchanged, same_action, shadow, walk
from archer_studies.study import Measured, Presented, Row, Study

RADIUS = 8
PARTED = "parted"
MEASURES = {PARTED: 100.0, "distance": 1.0, "surprise": 1.0}
"""What is told of the calls in a bin, and by which factor."""
NATS = (0.0, 0.01, 0.1, 0.3, 1.0, math.inf)
"""Bounds of the bins of surprise."""
HALVES = ("first half", "second half")
SIGNALS = (("distance", "surprise"), ("surprise", "distance"))
"""Each with the one that is held fixed."""


def measure(workspace: Workspace) -> Measured:
    few = min(workspace.scale.probed, workspace.scale.problems)
    task = workspace.dev_task or workspace.task
    arm = workspace.arm("archer", task, few, radius=RADIUS)
    request = workspace.again(arm)
    probes: list[Row] = []
    for key, prompt in workspace.prompts(request).items():
        probes += probe(request, arm, key, prompt)
    rows = [
        *by_fifth(probes),
        *by_distance(probes),
        *by_surprise(probes),
        *correlations(probes, SIGNALS, [PARTED]),
    ]
    settings = {"radius": RADIUS, "task": task, "problems": len(arm.keys)}
    return Measured(len(probes), [*rows, *probes], settings)


def probe(request: RunRequest, arm: Arm, key: str, prompt: Sequence[int]) -> list[Row]:
    """Every cached call of a problem, with what a full pass would have decided."""
    stream = walk(request, prompt)
    method, model = stream.request.method, request.model
    found: list[Row] = []
    anchor: Ints | None = None
    expected: Tensor | None = None
    for step in stream:
        now = step.before.response[0]
        if step.calls[0].kind is Kind.FULL:
            anchor, expected = now, foreseen(step)
        elif step.calls[0].kind is Kind.CACHED:
            assert anchor is not None
            assert expected is not None
            other = shadow(model, method, step)
            at: Row = {"part": "probe", "problem": key, "update": step.before.updates[0] + 1}
            at["distance"] = step.calls[0].distance
            at["surprise"] = surprise(expected, anchor, now, step.before.prompt.mask)
            found.append(at | {"parted": not same_action(step.decision, other.decision)})
    (completion,) = stream.finish()
    require_unchanged(arm, key, completion)
    for row in found:
        row["when"] = (row["update"] - 1) / completion.updates
    return found


def foreseen(step: Step[Any]) -> Tensor:
    """[G, V]: log-probabilities of a pass over the tokens that can be placed, in float64."""
    values = step.logits.rows[0].values.double().clone()
    values[:, step.before.prompt.mask] = -math.inf
    return torch.log_softmax(values, dim=1)


def surprise(expected: Tensor, anchor: Ints, now: Ints, mask: int) -> float:
    """Nats of the tokens that were placed since the anchor."""
    places = np.flatnonzero((now != anchor) & (now != mask))
    return float(-expected[places, now[places]].sum())


def by_fifth(probes: Sequence[Row]) -> list[Row]:
    """Of the trajectory."""
    return [
        _summary(
            "fifth", f"{fifth + 1}.", [row for row in probes if int(FIFTHS * row["when"]) == fifth]
        )
        for fifth in range(FIFTHS)
    ]


def by_distance(probes: Sequence[Row]) -> list[Row]:
    """Each half of the trajectory by itself: the same distance means less in the first."""
    rows = []
    for half, inside in zip(
        HALVES,
        (
            [row for row in probes if row["when"] < 0.5],
            [row for row in probes if row["when"] >= 0.5],
        ),
        strict=True,
    ):
        for distance in range(1, RADIUS):
            at = [row for row in inside if row["distance"] == distance]
            rows.append(_summary(half, str(distance), at))
    return rows


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
    parted = [_series("parted", "cached decisions that part", _part(rows, "fifth"))]
    halves = [_series("surprise", half, _part(rows, half)) for half in HALVES]
    return Presented(
        tables,
        {
            "parted": lines(
                parted,
                Labels(
                    "Where cached decisions part", "fifth of the trajectory", "calls that part (%)"
                ),
            ),
            "surprise": lines(
                halves,
                Labels(
                    "Surprise by distance", "distance from the anchor (tokens)", "surprise (nats)"
                ),
            ),
        },
    )


def _part(rows: Sequence[Row], name: str) -> list[Row]:
    return [row for row in rows if row["part"] == name and row["n"]]


def _series(name: str, label: str, rows: Sequence[Row]) -> Series:
    bounds = [row[f"{name}_interval"] or (row[name], row[name]) for row in rows]
    low, high = ([each[end] for each in bounds] for end in (0, 1))
    return Series(label, [row["bin"] for row in rows], [row[name] for row in rows], low, high)


def _binned(title: str, first: str, rows: Sequence[Row]) -> Table:
    return Table(
        title,
        [
            Column(first),
            Column("calls"),
            Column("parted (%)", 1),
            Column("distance", 1),
            Column("surprise (nats)", 2),
        ],
        [
            [
                row["bin"],
                row["n"],
                *(cell(row, name) for name in MEASURES),
            ]
            for row in rows
        ],
        [
            f"Archer with K = {RADIUS}. Parted: a full pass from the same state would have accepted or taken "
            "back something else. Surprise: nats of the tokens placed since the anchor under its logits.",
        ],
    )


def _predicted(where: str, rows: Sequence[Row]) -> Table:
    return Table(
        f"What tells a call that parts, {where}",
        [Column("signal"), Column("given"), Column("rank correlation with parting", 3)],
        [[row["signal"], row["given"], cell(row, "parted")] for row in rows],
        ["Partial Spearman correlations: the other signal is held fixed."],
    )


STUDY = Study(
    name="mechanism",
    title="Why a fixed radius refreshes at the wrong time",
    paper={},
    measure=measure,
    present=present,
)
