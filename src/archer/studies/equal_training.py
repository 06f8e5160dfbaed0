"""What a prompt that sees the response is worth: two models of one training, one with such a prompt.

In the blind one no column of the prompt sees the response, so its prompt is computed once and its cache is
exact, whatever the radius.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from archer.report.tables import Column, Table
from archer.studies.arms import against, described, value
from archer.studies.companions import BLIND, companion
from archer.studies.study import Row
from archer.studies.workspace import Arm, Workspace

PART = "training"


@dataclass(frozen=True, eq=False)
class Way:
    """A decoder with a cache on one of the two models."""

    decoder: str
    cache: str
    blind: bool
    method: str
    settings: dict[str, Any] = field(default_factory=dict)


SEEING_SABER = Way("Saber", "none", blind=False, method="saber")
WAYS = (
    Way("LLaDA-Confidence", "none", blind=False, method="llada-confidence"),
    Way(
        "LLaDA-Confidence",
        "exact",
        blind=True,
        method="confidence+archer",
        settings={"radius": math.inf},
    ),
    SEEING_SABER,
    Way("Saber", "K=8", blind=False, method="archer", settings={"radius": 8}),
    Way("Saber", "exact", blind=True, method="archer", settings={"radius": math.inf}),
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
        found += [_row(way, arms, task, workspace) for way in WAYS]
    return found


def _row(way: Way, arms: dict[Way, Arm], task: str, workspace: Workspace) -> Row:
    """Won and lost against the seeing model with the same decoder and no cache; cost against its Saber."""
    model = workspace.model
    usual = next(each for each in WAYS if each.decoder == way.decoder and not each.blind)
    cost = 1.0 / against(arms[way], arms[SEEING_SABER], model)["speedup_predicted"]
    return {
        "part": PART,
        "task": task,
        "model": BLIND if way.blind else model.name,
        "decoder": way.decoder,
        "cache": way.cache,
        **described(arms[way], f"{way.decoder}, {way.cache}", model),
        **against(arms[way], arms[usual], model),
        "cost": cost,
    }


def table(rows: Sequence[Row]) -> Table | None:
    """Of all rows of the study; None where none of them is about this."""
    own = [row for row in rows if row["part"] == PART]
    if not own:
        return None
    columns = [Column("task"), Column("n"), Column("decoder"), Column("model"), Column("cache")]
    columns += [Column("Pass@1 (%)", 1), Column("extended (%)", 1), Column("cost", 3)]
    columns += [Column("won", 0), Column("lost", 0), Column("p", 4, chance=True)]
    return Table(
        "A prompt that sees the response, and one that does not",
        columns,
        [
            [
                row["task"],
                row["n"],
                row["decoder"],
                row["model"],
                row["cache"],
                value(row, "base"),
                value(row, "extended"),
                row["cost"],
                row["base_only"],
                row["base_only_other"],
                row["base_p"],
            ]
            for row in own
        ],
        [
            f"Two models of one size and one training; in {BLIND} no column of the prompt sees the response, "
            "so that its prompt is computed once and its cache is exact.",
            "Won, lost: problems that only this row or only the first row of its decoder solves; p: exact "
            "McNemar. Cost: counted operations over those of the seeing model's eager Saber.",
        ],
    )
