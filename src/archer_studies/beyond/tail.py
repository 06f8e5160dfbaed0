"""The tail of end marks: what it saves to let settled ones rest, and how late a revision then can come."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from archer.decoders.saber import SaberTail
from archer.pages.page import Presented
from archer.pages.tables import Field, Table, table_of
from archer.runs.workspace import Arm, Workspace
from archer_studies.arms import PERCENT, SCORES, WON, compared, counted, in_turn
from archer_studies.beyond.refresh import SABER, TIMED, RuleArm, sizes
from archer_studies.probes.shadow_passes import require_unchanged, walk
from archer_studies.study import Measured, Row

TITLE = "The tail of end marks"
ABOUT = "What it saves to let settled end marks rest"
RULES = (
    SABER,
    RuleArm("late", "late, 1/2", "saber+late", {"share": 0.5}),
    RuleArm(
        "boundary",
        "the same, tail rests until its boundary moves",
        "saber-tail+late",
        {"share": 0.5},
    ),
    RuleArm(
        "look",
        "the same, tail rests until the next look",
        "saber-tail+late",
        {"share": 0.5, "wake": "look"},
    ),
    RuleArm(
        "look-kept",
        "the same, and taken back only what lost confidence",
        "saber-tail+late",
        {"share": 0.5, "wake": "look", "doubt": 1.0, "doubt_by": "kept"},
    ),
)


@dataclass(frozen=True)
class TailRest:
    """How the tail rested in one problem."""

    columns: int = 0
    """Response columns that were left out, over all updates."""
    longest: int = 0
    """Updates that a column rested at most, one after the other."""


def measure(workspace: Workspace) -> Measured:
    rows: list[Row] = []
    for task, few in sizes(workspace).items():
        arms = {rule.name: workspace.arm(rule.method, task, few, **rule.settings) for rule in RULES}
        chosen = arms[SABER.name].keys[: min(TIMED, workspace.scale.timed)]
        arms = in_turn(workspace, arms, chosen)
        for rule in RULES:
            arm = arms[rule.name]
            row = compared(arm, rule.label, arms[SABER.name], workspace.model)
            row |= counted(arm, arms[SABER.name]) | _rested(watch(workspace, arm), row)
            rows.append({"task": task, "rule": rule.name, **row})
    return Measured(rows[0]["n"], rows, {"tasks": list(sizes(workspace))})


def watch(workspace: Workspace, arm: Arm) -> list[TailRest]:
    """Every problem of an arm that rests, decoded once more; refuses what differs from the run."""
    request = workspace.again(arm)
    decoder = request.choice.build().decoder
    if not isinstance(decoder, SaberTail):
        return [TailRest() for _ in arm.keys]
    prompts = workspace.prompts(request)
    rests = []
    for key in arm.keys:
        stream = walk(request, prompts[key])
        asleep = np.zeros(stream.request.method.length, dtype=np.int64)
        left_out = longest = 0
        for step in stream:
            resting = decoder.resting(step.before)[0]
            asleep = np.where(resting, asleep + 1, 0)
            left_out, longest = left_out + int(resting.sum()), max(longest, int(asleep.max()))
        (completion,) = stream.finish()
        require_unchanged(arm, key, completion)
        rests.append(TailRest(left_out, longest))
    return rests


def _rested(watched: Sequence[TailRest], row: Row) -> Row:
    return {
        "resting": sum(each.columns for each in watched) / (row["updates"] * row["n"]),
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
    return table_of(
        f"The tail of end marks on {task}, n = {rows[0]['n']}",
        (
            Field("arm", "rule"),
            Field("cost", digits=3),
            Field(
                "", "as Saber (%)", 1, of=lambda row: PERCENT * row["same_completions"] / row["n"]
            ),
            SCORES[0],
            *WON,
            Field("resting", "columns at rest", 1),
            Field("longest", "longest rest (updates)"),
            Field("updates", digits=1),
            Field("speedup"),
        ),
        rows,
        [
            "Cost: operations counted as they were done, eager Saber = 1. Columns at rest: mean per "
            "update. The longest rest is the most that a revision can come late. Speedup over Saber: "
            f"measured on {rows[0]['timed']} problems in turn. Dev problems: they confirm nothing.",
        ],
    )
