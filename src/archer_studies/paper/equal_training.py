"""What a prompt that sees the response is worth to Saber: two models of one training, one of them blind.

In that one no column of the prompt sees the response, so its prompt is computed once and its cache is
exact, whatever the radius.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archer.pages.fields import Field, p_value, table_of
from archer.pages.tables import Table
from archer.runs.workspace import Arm, Workspace
from archer_studies.arms import BLIND, SCORES, WON, companion, compared
from archer_studies.study import Row

PART = "training"


@dataclass(frozen=True, eq=False)
class TrainedArm:
    """Saber with a cache on one of the two models."""

    cache: str
    blind: bool
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)


EAGER = TrainedArm("none", blind=False, method="saber")
WAYS = (
    EAGER,
    TrainedArm("K=8", blind=False, method="archer", settings={"radius": 8}),
    TrainedArm("exact", blind=True, method="archer"),
)


def rows(workspace: Workspace) -> list[Row]:
    """Every way on every task; nothing where the model has no such companion."""
    blind = companion(workspace, BLIND)
    if blind is None:
        return []
    found: list[Row] = []
    for task, few in workspace.sizes().items():
        arms = {
            way: (blind if way.blind else workspace).arm(way.method, task, few, **way.settings)
            for way in WAYS
        }
        found += [_row(way, arms[way], arms[EAGER], task, workspace) for way in WAYS]
    return found


def _row(way: TrainedArm, arm: Arm, eager: Arm, task: str, workspace: Workspace) -> Row:
    model = workspace.model
    row: Row = {
        "part": PART,
        "task": task,
        "model": BLIND if way.blind else model.name,
        "cache": way.cache,
        **compared(arm, f"Saber, {way.cache}", eager, model),
    }
    return row | {"cost": 1.0 / row["speedup_predicted"]}


def table(rows: Sequence[Row]) -> Table | None:
    """Of all rows of the study; None where none of them is about this."""
    own = [row for row in rows if row["part"] == PART]
    if not own:
        return None
    return table_of(
        "Saber with a prompt that sees the response, and with one that does not",
        (
            Field("task"),
            Field("n"),
            Field("model"),
            Field("cache"),
            *SCORES,
            Field("cost", digits=3),
            *WON,
            p_value("base_p"),
        ),
        own,
        [
            f"Two models of one size and one recipe. In {BLIND} the prompt does not see the response: its "
            "prompt is computed once and its cache is exact.",
            "Cost: counted operations over those of the first row of the task. Won, lost: problems that only "
            "this row or only that one solves; p: exact McNemar.",
        ],
    )
