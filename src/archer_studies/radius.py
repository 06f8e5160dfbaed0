"""The radius: quality, time and refreshes for K from 1 to infinity, eager Saber beside them, and K by dev."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archer.pages.figures import Figure, Labels, frontier, lines
from archer.pages.tables import Column, Table
from archer.runs.workspace import ArmRequest, Workspace
from archer_studies.arms import against, described, published, series, value
from archer_studies.in_turn import in_turn
from archer_studies.study import Measured, Presented, Row, Study

RADII: tuple[int | str, ...] = (1, 2, 4, 8, 16, 32, "inf")
PAPER = {
    "where": "Table 6, LLaDA-8B-Instruct",
    "mbpp": {
        "saber": [44.03, 1.00],
        "1": [44.03, 1.00],
        "2": [44.26, 1.01],
        "4": [44.96, 1.19],
        "8": [44.96, 1.30],
        "16": [43.33, 1.42],
        "32": [42.62, 1.43],
        "inf": [42.62, 1.41],
    },
    "livecodebench": {
        "saber": [7.25, 1.00],
        "1": [7.25, 1.00],
        "2": [7.25, 1.00],
        "4": [8.00, 1.39],
        "8": [9.50, 1.70],
        "16": [9.25, 1.99],
        "32": [8.00, 2.31],
        "inf": [7.00, 2.22],
    },
    "humaneval": {
        "saber": [44.51, 1.00],
        "1": [44.51, 1.01],
        "2": [44.51, 1.00],
        "4": [42.68, 1.33],
        "8": [43.29, 1.51],
        "16": [41.46, 1.73],
        "32": [40.24, 1.82],
        "inf": [39.63, 1.83],
    },
}
"""Pass@1 and speedup over Saber."""
NOTHING = (None, None)
DEV = "dev"


def measure(workspace: Workspace) -> Measured:
    sizes = workspace.sizes()
    rows = [row for task, problems in sizes.items() for row in _measured(workspace, task, problems)]
    for each in _dev_arms(workspace):
        radius = each.settings["radius"]
        named = described(workspace.run(each), f"Archer K={radius}", workspace.model)
        rows.append({"split": DEV, "radius": str(radius), **named})
    settings = {"radii": list(RADII), "tasks": list(sizes), "dev_task": workspace.dev_task}
    return Measured(rows[0]["n"], rows, settings)


def _measured(workspace: Workspace, task: str, problems: int) -> list[Row]:
    """Saber and every radius on one task."""
    arms = {"saber": workspace.arm("saber", task, problems)}
    for radius in RADII:
        arms[str(radius)] = workspace.arm("archer", task, problems, radius=radius)
    arms = in_turn(workspace, arms)
    labels = {"saber": "Saber"} | {str(radius): f"Archer K={radius}" for radius in RADII}
    return [
        {
            "split": task,
            "radius": name,
            **described(arm, labels[name], workspace.model),
            **against(arm, arms["saber"], workspace.model),
        }
        for name, arm in arms.items()
    ]


def _dev_arms(workspace: Workspace) -> list[ArmRequest]:
    if workspace.dev_task is None:
        return []
    few = workspace.scale.probed
    return [ArmRequest("archer", {"radius": radius}, workspace.dev_task, few) for radius in RADII]


def wanted(workspace: Workspace) -> list[ArmRequest]:
    """Every arm of the tables."""
    sizes = workspace.sizes().items()
    swept = [
        ArmRequest("archer", {"radius": radius}, task, few)
        for task, few in sizes
        for radius in RADII
    ]
    return [
        *(ArmRequest("saber", {}, task, few) for task, few in sizes),
        *swept,
        *_dev_arms(workspace),
    ]


def selected(dev: Sequence[Row]) -> str:
    """The radius with the best score on other problems than those it is reported on; ties to the cheaper."""
    best = max(dev, key=lambda row: (row["base"], -row["operations"]))
    return str(best["radius"])


def present(result: Mapping[str, Any]) -> Presented:
    tables, figures = [], {}
    for task in result["settings"]["tasks"]:
        rows = _split(result, task)
        tables.append(_sweep(result, task, rows))
        figures[f"sensitivity-{task}"] = _sensitivity(task, rows)
        points = [series(row["arm"], [row["seconds"]], [row], "base") for row in rows]
        labels = Labels(f"Quality against time on {task}", "seconds per problem", "Pass@1 (%)")
        figures[f"frontier-{task}"] = frontier(points, labels)
    dev = _split(result, DEV)
    if dev:
        tables.append(_selection(result, _split(result, result["settings"]["task"]), dev))
    return Presented(tables, figures)


def _split(result: Mapping[str, Any], split: str) -> list[Row]:
    return [row for row in result["rows"] if row["split"] == split]


def _sensitivity(task: str, rows: Sequence[Row]) -> Figure:
    sweep = [row for row in rows if row["radius"] != "saber"]
    names = [row["radius"] for row in sweep]
    return lines(
        [
            series(label, names, sweep, suite)
            for suite, label in (("base", "Pass@1, base"), ("extended", "extended"))
            if suite in sweep[0]
        ],
        Labels(f"Pass@1 over the radius on {task}", "radius K", "Pass@1 (%)"),
    )


def _sweep(result: Mapping[str, Any], task: str, rows: Sequence[Row]) -> Table:
    theirs = published(result["paper"], task)
    return Table(
        f"Radius sweep on {task}, n = {rows[0]['n']}",
        [
            Column("setting"),
            Column("Pass@1 (%)", 1),
            Column("extended (%)", 1),
            Column("seconds", 3),
            Column("speedup"),
            Column("predicted"),
            Column("refreshes"),
            Column("as Saber"),
            Column("updates", 1),
            Column("p", 4, chance=True),
        ],
        [
            [
                row["arm"],
                value(row, "base", (paper := theirs.get(row["radius"], NOTHING))[0]),
                value(row, "extended"),
                value(row, "seconds"),
                value(row, "speedup", paper[1]),
                row["speedup_predicted"],
                row["refresh_fraction"],
                row["same_completions"],
                row["updates"],
                row["base_p"],
            ]
            for row in rows
        ],
        [
            "The paper's columns are LLaDA-8B, on pocket those of MBPP, on pocket-long those of "
            "LiveCodeBench: another model and other benchmarks.",
            "As Saber: problems with the very completion of Saber. "
            f"Seconds and speedup from {rows[0]['timed']} problems that all settings decoded in turn. "
            "p: exact McNemar against Saber. Predicted: from the passes made and their operations.",
        ],
    )


def _selection(result: Mapping[str, Any], rows: Sequence[Row], dev: Sequence[Row]) -> Table:
    """What choosing K on the dev split gives on the test split."""
    chosen = selected(dev)
    test = {row["radius"]: row for row in rows}
    saber, kept = test["saber"], test[chosen]
    return Table(
        f"K chosen on {result['settings']['dev_task']}, n = {dev[0]['n']} there and {result['n']} on "
        f"{result['settings']['task']}",
        [
            Column("K"),
            Column("dev Pass@1 (%)", 1),
            Column("dev refreshes"),
            Column("test Pass@1 (%)", 1),
            Column("chosen"),
        ],
        [
            [
                row["radius"],
                value(row, "base"),
                row["refresh_fraction"],
                value(test[row["radius"]], "base"),
                "yes" if row["radius"] == chosen else "",
            ]
            for row in dev
        ],
        [
            f"The best on dev, ties to the cheaper, is K={chosen}. On the test split it has "
            f"{kept['base']:.1f} % against Saber's {saber['base']:.1f} % (exact McNemar p = "
            f"{kept['base_p']:.2f}) at a speedup of {kept['speedup']:.2f}.",
        ],
    )


STUDY = Study(
    name="radius",
    title="Refresh radius",
    paper=PAPER,
    measure=measure,
    present=present,
    arms=wanted,
)
