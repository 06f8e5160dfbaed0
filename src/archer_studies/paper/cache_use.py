"""Use of the cache: how many updates were answered by full, cached and reused passes, by radius and task."""

from collections.abc import Mapping, Sequence
from typing import Any

from archer.pages.figures import Figure, Labels, lines
from archer.pages.page import Presented
from archer.pages.tables import Field, series, table_of
from archer.runs.statistics import bootstrap, ratio_of_sums
from archer.runs.workspace import Arm, Workspace
from archer_studies.arms import PERCENT
from archer_studies.paper.radius import RADII
from archer_studies.study import Measured, Row, published

TITLE = "Use of the cache"
ABOUT = "Shares of full, cached and reused passes by radius"
LONG_RADII = (4, 8, 16)
KINDS = ("full", "cached", "reused")
FIELDS = (
    Field("task"),
    Field("radius", "K"),
    Field("cached", "cached (%)", 1),
    Field("full", "full (%)", 1),
    Field("reused", "reused (%)", 1),
    Field("refresh_fraction", "refresh fraction", 3),
    Field("updates", digits=1),
)


def measure(workspace: Workspace) -> Measured:
    rows = [
        {
            "task": task,
            "radius": str(radius),
            **use(workspace.arm("archer", task, few, radius=radius)),
        }
        for task, few in workspace.sizes().items()
        for radius in (RADII if task == workspace.task else LONG_RADII)
    ]
    return Measured(rows[0]["n"], rows, {"radii": list(RADII), "long_radii": list(LONG_RADII)})


def use(arm: Arm) -> Row:
    """Shares of the updates in per cent, with intervals over problems; refreshes are full passes."""
    records = list(arm.run.recorded.samples.values())
    row: Row = {"n": len(records), "updates": arm.summary.per_problem["updates"]}
    for kind in KINDS:
        pairs = [(record.count(f"{kind}_passes"), record.updates) for record in records]
        row[kind] = PERCENT * ratio_of_sums(pairs)
        row[f"{kind}_interval"] = [PERCENT * end for end in bootstrap(pairs, ratio_of_sums)]
    row["refresh_fraction"] = arm.summary.refresh_fraction
    return row


def present(result: Mapping[str, Any]) -> Presented:
    rows, paper = result["rows"], result["paper"]
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    sizes = {row["task"]: row["n"] for row in rows}
    table = table_of(
        "Passes by kind, " + ", ".join(f"{task}: n = {sizes[task]}" for task in tasks),
        FIELDS,
        rows,
        [
            "Of all updates, the first of each response included. Reused: the same question as before "
            "needs no pass.",
            *(
                f"The paper has {theirs['cached']} % cached at K={theirs['radius']} for the benchmark "
                f"beside which {task} stands, with a response of 256."
                for task in tasks
                if (theirs := published(paper, task))
            ),
        ],
    )
    return Presented([table], {"cached": _figure(rows, tasks)})


def _figure(rows: Sequence[Row], tasks: Sequence[str]) -> Figure:
    by_task = {task: [row for row in rows if row["task"] == task] for task in tasks}
    return lines(
        [
            series(task, [row["radius"] for row in own], own, "cached")
            for task, own in by_task.items()
        ],
        Labels("Cached passes over the radius", "radius K", "share of updates (%)"),
    )
