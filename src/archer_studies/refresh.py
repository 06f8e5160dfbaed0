"""When to refresh: rules that look at more than a radius, and a Saber that takes back only what it doubts.

On dev problems, for choosing: what is reported elsewhere is measured on others.  Every arm is compared with
eager Saber: the same completion, the same answers, and what it costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archer.pages.figures import Labels, Series, frontier, lines
from archer.pages.tables import Column, Table
from archer.runs.statistics import mean, wilson
from archer.runs.workspace import Arm, ArmRequest, Workspace
from archer_studies.arms import PERCENT, against, described, value
from archer_studies.in_turn import in_turn
from archer_studies.refresh_rules import DIALS, RULES, SABER, Rule
from archer_studies.study import Measured, Presented, Row, Study
from archer_studies.trajectories import retell

MOST = 200
LONG_SHARE = 0.4
"""Of the problems, with long prompts: as many as the development of the rules has looked at."""
TIMED = 8
WATCHED = 12
FIFTHS = 5
COST = "cost, eager Saber = 1"
LONG = {"pocket-dev": "pocket-dev-long"}
ARMS = (*RULES, *DIALS)


def sizes(workspace: Workspace) -> dict[str, int]:
    """Problems of the dev task and of its long form; of the task itself where there is no dev task."""
    few = min(workspace.scale.problems, MOST)
    if workspace.dev_task is None:
        return {workspace.task: few}
    found = {workspace.dev_task: few}
    if workspace.dev_task in LONG:
        found[LONG[workspace.dev_task]] = max(1, int(LONG_SHARE * few))
    return found


def wanted(workspace: Workspace) -> list[ArmRequest]:
    return arms_of(ARMS, workspace)


def arms_of(rules: Sequence[Rule], workspace: Workspace) -> list[ArmRequest]:
    """Every rule on every task."""
    return [
        ArmRequest(rule.method, dict(rule.settings), task, few)
        for task, few in sizes(workspace).items()
        for rule in rules
    ]


def measure(workspace: Workspace) -> Measured:
    rows: list[Row] = []
    for task, few in sizes(workspace).items():
        arms = {rule.name: workspace.arm(rule.method, task, few, **rule.settings) for rule in ARMS}
        key = {rule.name: arms[rule.name] for rule in RULES if rule.key}
        chosen = arms[SABER.name].keys[: min(TIMED, workspace.scale.timed)]
        arms |= in_turn(workspace, key, chosen)
        rows += [
            {"task": task, "rule": rule.name, "line": rule.line, **_row(workspace, rule, arms)}
            for rule in ARMS
        ]
    return Measured(rows[0]["n"], rows, {"tasks": list(sizes(workspace))})


def _row(workspace: Workspace, rule: Rule, arms: Mapping[str, Arm]) -> Row:
    arm, saber = arms[rule.name], arms[SABER.name]
    row = described(arm, rule.label, workspace.model) | against(arm, saber, workspace.model)
    low, high = wilson(row["same_completions"], row["n"])
    row |= {
        "cost": 1.0 / row["speedup_predicted"],
        "identical": PERCENT * row["same_completions"] / row["n"],
        "identical_interval": [PERCENT * low, PERCENT * high],
    }
    if rule.key:
        few = arm.keys[: min(WATCHED, workspace.scale.probed)]
        calls = [
            [event.call == "full" for event in told.trajectory.updates]
            for _, told in retell(workspace, arm, few)
        ]
        row["refreshes_by_fifth"] = by_fifth(calls)
    return row


def by_fifth(calls: Sequence[Sequence[bool]]) -> list[float]:
    """Share of full passes in each fifth of the trajectories, all updates of all of them together."""
    parts: list[list[float]] = [[] for _ in range(FIFTHS)]
    for each in calls:
        for place, full in enumerate(each):
            parts[FIFTHS * place // len(each)].append(float(full))
    return [mean(part) if part else 0.0 for part in parts]


def present(result: Mapping[str, Any]) -> Presented:
    tables, figures = [], {}
    for task in result["settings"]["tasks"]:
        found = [row for row in result["rows"] if row["task"] == task]
        rows, dials = (
            [row for row in found if not row["line"]],
            [row for row in found if row["line"]],
        )
        tables += [
            _table(f"Refresh rules on {task}", rows),
            _table(f"Tokens per update, refresh rule and doubt on {task}", dials),
        ]
        figures[f"dials-{task}"] = frontier(
            [_along(line, dials) for line in dict.fromkeys(row["line"] for row in dials)],
            Labels(f"Pass@1 against cost on {task}", COST, "Pass@1 (%)"),
        )
        for name, what in (("identical", "as Saber (%)"), ("base", "Pass@1 (%)")):
            figures[f"{name}-{task}"] = frontier(
                [_point(row, name) for row in rows],
                Labels(f"{what} against cost on {task}", COST, what),
            )
        watched = [row for row in rows if "refreshes_by_fifth" in row and row["rule"] != SABER.name]
        names = [f"{number}." for number in range(1, FIFTHS + 1)]
        figures[f"fifths-{task}"] = lines(
            [Series(row["arm"], names, row["refreshes_by_fifth"]) for row in watched],
            Labels(
                f"Where full passes fall on {task}", "fifth of the trajectory", "share of passes"
            ),
        )
    return Presented(tables, figures)


def _point(row: Row, name: str) -> Series:
    low, high = row[f"{name}_interval"]
    return Series(_short(row["arm"]), [row["cost"]], [row[name]], [low], [high])


def _along(line: str, rows: Sequence[Row]) -> Series:
    own = [row for row in rows if row["line"] == line]
    return Series(line, [row["cost"] for row in own], [row["base"] for row in own])


def _short(label: str) -> str:
    """For a legend: what sets the arm apart."""
    _, _, doubt = label.partition("; doubt by ")
    return f"doubt: {doubt.partition(' ')[0]}" if doubt else label


def _table(title: str, rows: Sequence[Row]) -> Table:
    columns = [
        Column("rule"),
        Column("cost", 3),
        Column("as Saber (%)", 1),
        Column("Pass@1 (%)", 1),
    ]
    columns += [Column("won", 0), Column("lost", 0), Column("p", 4, chance=True)]
    columns += [Column("refreshes"), Column("updates", 1), Column("speedup")]
    timed = next((row["timed"] for row in rows if "timed" in row), 0)
    width = len(columns) if timed else len(columns) - 1
    return Table(
        f"{title}, n = {rows[0]['n']}",
        columns[:width],
        [
            [
                row["arm"],
                row["cost"],
                value(row, "identical"),
                value(row, "base"),
                row["base_only"],
                row["base_only_other"],
                row["base_p"],
                row["refresh_fraction"],
                row["updates"],
                value(row, "speedup"),
            ][:width]
            for row in rows
        ],
        [
            "Cost: counted operations over those of eager Saber. As Saber: completions equal to Saber's. "
            "Won, lost: problems that only the rule or only Saber solves; p: exact McNemar, not adjusted.",
            *([f"Speedup: measured on {timed} problems, decoded in turn."] if timed else []),
            "These problems were used to choose rules and settings: they confirm nothing.",
        ],
    )


STUDY = Study(
    name="refresh",
    title="When to refresh",
    paper={},
    measure=measure,
    present=present,
    arms=wanted,
)
