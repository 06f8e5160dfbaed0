"""The radius: quality, time and refreshes for K from 1 to infinity, eager Saber beside them, and K by dev."""

from collections.abc import Mapping, Sequence
from typing import Any

from archer.pages.figures import Figure, Labels, frontier, lines
from archer.pages.page import Presented
from archer.pages.tables import Field, Table, p_value, series, table_of
from archer.runs.workspace import Workspace
from archer_studies.arms import compared, described, in_turn
from archer_studies.study import FEW, Measured, Row, published

TITLE = "Refresh radius"
ABOUT = "Score and time by the radius of the prompt cache"
RADII: tuple[int | str, ...] = (1, 2, 4, 8, 16, 32, "inf")
DEV = "dev"


def measure(workspace: Workspace) -> Measured:
    sizes = workspace.sizes()
    rows = [row for task, problems in sizes.items() for row in _measured(workspace, task, problems)]
    for radius in () if workspace.dev_task is None else RADII:
        arm = workspace.arm("archer", workspace.dev_task, workspace.scale.probed, radius=radius)
        named = described(arm, f"Archer K={radius}", workspace.model)
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
            **compared(arm, labels[name], arms["saber"], workspace.model),
        }
        for name, arm in arms.items()
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
    return table_of(
        f"Radius sweep on {task}, n = {rows[0]['n']}",
        (
            Field("arm", "setting"),
            Field("base", "Pass@1 (%)", 1, paper=0),
            Field("extended", "extended (%)", 1),
            Field("seconds", digits=3),
            Field("speedup", paper=1),
            Field("speedup_predicted", "predicted"),
            Field("refresh_fraction", "refreshes"),
            Field("same_completions", "as Saber"),
            Field("updates", digits=1),
            p_value("base_p"),
        ),
        rows,
        [
            "The paper's columns are LLaDA-8B, on pocket those of MBPP, on pocket-long those of "
            "LiveCodeBench: another model and other benchmarks.",
            "As Saber: problems with the very completion of Saber. "
            f"Seconds and speedup from {rows[0]['timed']} problems that all settings decoded in turn. "
            "p: exact McNemar against Saber. Predicted: from the passes made and their operations.",
        ],
        lambda row: theirs.get(row["radius"], ()),
    )


def _best(chosen: str, n: int) -> str:
    if n < FEW:
        return f"{n} problems are too few to tell which K is best; K={chosen} had most of them."
    return f"The best on dev, ties to the cheaper, is K={chosen}."


def _selection(result: Mapping[str, Any], rows: Sequence[Row], dev: Sequence[Row]) -> Table:
    """What choosing K on the dev split gives on the test split."""
    chosen = selected(dev)
    test = {row["radius"]: row for row in rows}
    saber, kept = test["saber"], test[chosen]
    both = [
        {
            **row,
            "test": test[row["radius"]]["base"],
            "test_interval": test[row["radius"]]["base_interval"],
            "chosen": "yes" if row["radius"] == chosen else "",
        }
        for row in dev
    ]
    return table_of(
        f"K chosen on {result['settings']['dev_task']}, n = {dev[0]['n']} there and {result['n']} on "
        f"{result['settings']['task']}",
        (
            Field("radius", "K"),
            Field("base", "dev Pass@1 (%)", 1),
            Field("refresh_fraction", "dev refreshes"),
            Field("test", "test Pass@1 (%)", 1),
            Field("chosen"),
        ),
        both,
        [
            f"{_best(chosen, dev[0]['n'])} On the test split it has "
            f"{kept['base']:.1f} % against Saber's {saber['base']:.1f} % (exact McNemar p = "
            f"{kept['base_p']:.2f}) at a speedup of {kept['speedup']:.2f}.",
        ],
    )
