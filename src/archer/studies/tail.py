"""The tail of end marks: what it saves to let settled ones rest, and how late a revision then can come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from archer.decoders.saber_tail import SaberTail
from archer.engine.operations import operations
from archer.engine.work import Work
from archer.report.tables import Column, Table
from archer.studies.arms import PERCENT, against, described, value
from archer.studies.in_turn import in_turn
from archer.studies.refresh import SABER, TIMED, Rule, arms_of, sizes
from archer.studies.shadow_passes import require_unchanged, walk
from archer.studies.study import Measured, Presented, Row, Study
from archer.studies.workspace import Arm, Wanted, Workspace

RULES = (
    SABER,
    Rule("late", "late, 1/2", "saber+late", {"share": 0.5}),
    Rule(
        "boundary",
        "the same, tail rests until its boundary moves",
        "saber-tail+late",
        {"share": 0.5},
    ),
    Rule(
        "look",
        "the same, tail rests until the next look",
        "saber-tail+late",
        {"share": 0.5, "wake": "look"},
    ),
)


@dataclass(frozen=True)
class Watched:
    """What one problem took, and how the tail rested."""

    operations: int
    columns: int
    """Response columns that were left out, over all updates."""
    updates: int
    longest: int
    """Updates that a column rested at most, one after the other."""


def wanted(workspace: Workspace) -> list[Wanted]:
    return arms_of(RULES, workspace)


def measure(workspace: Workspace) -> Measured:
    rows: list[Row] = []
    for task, few in sizes(workspace).items():
        arms = {rule.name: workspace.arm(rule.method, task, few, **rule.settings) for rule in RULES}
        chosen = arms[SABER.name].keys[: min(TIMED, workspace.scale.timed)]
        arms = in_turn(workspace, arms, chosen)
        watched = {name: watch(workspace, arm) for name, arm in arms.items()}
        eager = sum(each.operations for each in watched[SABER.name])
        for rule in RULES:
            arm = arms[rule.name]
            row = described(arm, rule.label, workspace.model)
            row |= against(arm, arms[SABER.name], workspace.model)
            rows.append(
                {"task": task, "rule": rule.name, **row, **_told(watched[rule.name], eager)}
            )
    return Measured(rows[0]["n"], rows, {"tasks": list(sizes(workspace))})


def watch(workspace: Workspace, arm: Arm) -> list[Watched]:
    """Every problem of an arm once more, its work counted; refuses what differs from the run."""
    request = workspace.again(arm)
    prompts = workspace.prompts(request)
    found = []
    for key in arm.keys:
        stream, work = walk(request, prompts[key]), Work()
        decoder = stream.request.method.decoder
        asleep = np.zeros(stream.request.method.length, dtype=np.int64)
        left_out = updates = longest = 0
        for step in stream:
            work += step.work
            updates += 1
            if isinstance(decoder, SaberTail):
                resting = decoder.resting(step.before)[0]
                asleep = np.where(resting, asleep + 1, 0)
                left_out, longest = left_out + int(resting.sum()), max(longest, int(asleep.max()))
        (completion,) = stream.finish()
        require_unchanged(arm, key, completion)
        counted = operations(work, workspace.model.folder.shape)
        found.append(Watched(counted, left_out, updates, longest))
    return found


def _told(watched: Sequence[Watched], eager: int) -> Row:
    updates = sum(each.updates for each in watched)
    return {
        "cost": sum(each.operations for each in watched) / eager,
        "resting": sum(each.columns for each in watched) / updates,
        "longest": max(each.longest for each in watched),
    }


def present(result: Mapping[str, Any]) -> Presented:
    return Presented(
        [
            _table(task, [row for row in result["rows"] if row["task"] == task])
            for task in result["settings"]["tasks"]
        ]
    )


def _table(task: str, rows: Sequence[Row]) -> Table:
    columns = [
        Column("rule"),
        Column("cost", 3),
        Column("as Saber (%)", 1),
        Column("Pass@1 (%)", 1),
    ]
    columns += [Column("won", 0), Column("lost", 0), Column("columns at rest", 1)]
    columns += [Column("longest rest (updates)", 0), Column("updates", 1), Column("speedup")]
    return Table(
        f"The tail of end marks on {task}, n = {rows[0]['n']}",
        columns,
        [
            [
                row["arm"],
                row["cost"],
                PERCENT * row["same_completions"] / row["n"],
                value(row, "base"),
                row["base_only"],
                row["base_only_other"],
                row["resting"],
                row["longest"],
                row["updates"],
                value(row, "speedup"),
            ]
            for row in rows
        ],
        [
            "Cost: operations counted as they were done, eager Saber = 1. Columns at rest: mean per "
            "update. The longest rest is the most that a revision can come late. Speedup over Saber: "
            f"measured on {rows[0]['timed']} problems in turn. Dev problems: they confirm nothing.",
        ],
    )


STUDY = Study(
    name="tail",
    title="The tail of end marks",
    paper={},
    measure=measure,
    present=present,
    arms=wanted,
)
