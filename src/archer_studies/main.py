"""The main table: the paper's eight methods, our default and two controls, on short and on long prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archer.methods.catalogue import PRESETS
from archer.pages.figures import Labels, frontier
from archer.pages.tables import Column, Table
from archer.runs.workspace import Arm, ArmRequest, Workspace
from archer_studies.arms import against, described, operations_of, published, series, value
from archer_studies.in_turn import in_turn
from archer_studies.main_paper import PAPER
from archer_studies.overall import overall
from archer_studies.study import Measured, Presented, Row, Study
from archer_studies.trajectories import retell

REFERENCE = "llada-confidence"
ROLLBACK = "saber"
METHODS = {
    REFERENCE: "LLaDA-Confidence",
    "fast-dllm-cache": "Fast-dLLM + Cache",
    "fast-dllm-parallel": "Fast-dLLM + Parallel",
    "dkv-decode": "dKV-Cache-Decode",
    "dkv-greedy": "dKV-Cache-Greedy",
    "dllm-cache": "dLLM-Cache",
    ROLLBACK: "Saber",
    "archer": "Archer",
    "archer-doubt": "archer-doubt",
    "no-rollback": "No rollback",
    "no-rollback+archer": "No rollback + Archer's cache",
}
"""In the paper's order; it does not have the last three: our default, and two controls."""
TAKES = {
    "archer": ("radius",),
    "no-rollback+archer": ("radius",),
    "dllm-cache": ("prompt_interval", "response_interval"),
}
"""Settings of the paper that differ between benchmarks; all others are defaults, block and length equal."""
PROMPT_CACHES = (
    REFERENCE,
    ROLLBACK,
    "archer",
    "archer-doubt",
    "no-rollback",
    "no-rollback+archer",
)
"""Methods whose cached passes compute exactly the response, so that counts of passes give operations."""
COUNTED = 2
"""Problems on which the operations of the other caches are counted."""
HIGHLIGHTED = (METHODS[ROLLBACK], METHODS["archer-doubt"])
"""In colour in the figure: the rollback decoder without a cache, and our default."""
NOTHING = (None, None, None, None)
COLUMNS = (
    Column("method"),
    Column("Pass@1 (%)", 1),
    Column("extended (%)", 1),
    Column("seconds", 3),
    Column("speedup"),
    Column("predicted"),
    Column("only it / only Saber"),
    Column("p", 4, chance=True),
)


def measure(workspace: Workspace) -> Measured:
    sizes = workspace.sizes()
    arms: dict[str, dict[str, Arm]] = {task: {} for task in sizes}
    for each in wanted(workspace):
        arms[each.task or workspace.task][each.method] = workspace.run(each)
    arms = {task: in_turn(workspace, found) for task, found in arms.items()}
    rows = [
        {"task": task, "method": method, **_row(workspace, method, arm, arms[task])}
        for task in sizes
        for method, arm in arms[task].items()
    ]
    for method, label in METHODS.items():
        pairs = {task: (found[method], found[REFERENCE]) for task, found in arms.items()}
        rows.append({"task": "overall", "method": method, "arm": label, **overall(pairs)})
    used = {
        task: {method: arm.run.identity["method"]["settings"] for method, arm in found.items()}
        for task, found in arms.items()
    }
    n = len(arms[workspace.task][REFERENCE].keys)
    return Measured(n, rows, {"tasks": list(sizes), "methods": used})


def settings_of(method: str, task: str) -> dict[str, Any]:
    """What the paper sets per benchmark; for another task what it sets in general."""
    preset = PRESETS.get(f"paper:{task}", PRESETS["paper"])
    return {name: preset[name] for name in TAKES.get(method, ())}


def wanted(workspace: Workspace) -> list[ArmRequest]:
    """Every arm of the table, in its order."""
    return [
        ArmRequest(method, settings_of(method, task), task, problems)
        for task, problems in workspace.sizes().items()
        for method in METHODS
    ]


def _row(workspace: Workspace, method: str, arm: Arm, arms: Mapping[str, Arm]) -> Row:
    row = described(arm, METHODS[method], workspace.model) | against(
        arm, arms[REFERENCE], workspace.model
    )
    rollback = against(arm, arms[ROLLBACK], workspace.model)
    row |= {f"saber_{name}": rollback[name] for name in rollback if name.startswith("base_")}
    if method not in PROMPT_CACHES:
        told = [found for _, found in retell(workspace, arm, arm.keys[:COUNTED])]
        updates = sum(found.completion.updates for found in told)
        each = sum(found.operations for found in told) / updates
        row["operations"] = each * row["updates"]
        reference = operations_of(arms[REFERENCE], workspace.model) / row["n"]
        row["speedup_predicted"] = reference / row["operations"]
    return row


def present(result: Mapping[str, Any]) -> Presented:
    tables = [_table(result, task) for task in result["settings"]["tasks"]]
    figures = {
        f"frontier-{task}": frontier(
            [
                series(row["arm"], [row["seconds"]], [row], "base")
                for row in result["rows"]
                if row["task"] == task
            ],
            Labels(f"Quality against time on {task}", "seconds per problem", "Pass@1 (%)"),
            highlight=HIGHLIGHTED,
        )
        for task in result["settings"]["tasks"]
    }
    return Presented([*tables, _overall_table(result)], figures)


def _table(result: Mapping[str, Any], task: str) -> Table:
    rows = [row for row in result["rows"] if row["task"] == task]
    theirs = published(result["paper"], task)
    return Table(
        f"Methods on {task}, n = {rows[0]['n']}",
        COLUMNS,
        [
            [
                row["arm"],
                value(row, "base", (paper := theirs.get(row["method"], NOTHING))[0]),
                value(row, "extended", paper[1]),
                value(row, "seconds"),
                value(row, "speedup", paper[3]),
                row["speedup_predicted"],
                f"{row['saber_base_only']} / {row['saber_base_only_other']}",
                row["saber_base_p"],
            ]
            for row in rows
        ],
        [
            f"Seconds and speedup over LLaDA-Confidence from {rows[0]['timed']} problems that all methods "
            "decoded in turn; predicted from the operations of the passes made on all problems.",
            "p: exact McNemar against Saber on Pass@1. Intervals: 95 %, Wilson for scores, bootstrap over "
            "problems otherwise.",
            "The paper's columns are LLaDA-8B: on pocket those of MBPP, on pocket-long those of "
            "LiveCodeBench. It does not have the last three rows: our default, and two controls.",
        ],
    )


def _overall_table(result: Mapping[str, Any]) -> Table:
    rows = [row for row in result["rows"] if row["task"] == "overall"]
    tasks = result["settings"]["tasks"]
    theirs = result["paper"]["overall"]
    return Table(
        f"Overall: {' and '.join(tasks)}, n = {rows[0]['n']} problems",
        [Column("method"), Column("mean score (%)", 1), Column("mean speedup")],
        [
            [
                row["arm"],
                value(row, "performance", theirs.get(row["method"], NOTHING)[0]),
                value(row, "speedup", theirs.get(row["method"], NOTHING)[1]),
            ]
            for row in rows
        ],
        [
            "The mean of all scores and the mean of the speedups, as the paper averages them over three "
            "benchmarks; speedups from the problems decoded in turn. Intervals resample problems with all "
            "their outcomes.",
        ],
    )


STUDY = Study(
    name="main",
    title="Main comparison",
    paper=PAPER,
    measure=measure,
    present=present,
    arms=wanted,
)
