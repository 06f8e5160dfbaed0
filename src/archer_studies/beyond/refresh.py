"""When to refresh: rules beyond a radius, and doubt, on dev problems for choosing, beside eager Saber."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archer.pages.figures import Labels, Series, frontier, lines
from archer.pages.page import Presented
from archer.pages.tables import Field, Table, p_value, series, table_of
from archer.runs.statistics import mean, wilson
from archer.runs.workspace import Arm, Workspace
from archer_studies.arms import PERCENT, SCORES, WON, compared, in_turn
from archer_studies.probes.trajectories import decoded_again
from archer_studies.study import Measured, Row

TITLE = "When to refresh"
ABOUT = "Rules for when to refresh the prompt, on problems set aside for choosing"
MOST = 200
LONG_SHARE = 0.4
"""Of the problems, with long prompts: as many as the development of the rules has looked at."""
TIMED = 8
WATCHED = 12
FIFTHS = 5
COST = "cost, eager Saber = 1"
LONG = {"pocket-dev": "pocket-dev-long"}
FIELDS = (
    Field("arm", "rule"),
    Field("cost", digits=3),
    Field("identical", "as Saber (%)", 1),
    SCORES[0],
    *WON,
    p_value("base_p"),
    Field("refresh_fraction", "refreshes"),
    Field("updates", digits=1),
)


@dataclass(frozen=True)
class RuleArm:
    """One arm; the `key` ones are timed and watched.  Those that share a `line` differ in doubt alone."""

    name: str
    label: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    key: bool = False
    line: str = ""


SABER = RuleArm("saber", "Saber", "saber", key=True)
LATE = RuleArm("late2", "late, 1/2", "saber+late", {"share": 0.5}, key=True)
SURPRISE = RuleArm("surprise3", "surprise, 0.3", "saber+surprise", {"nats": 0.3}, key=True)
RULES = (
    SABER,
    RuleArm("k4", "Archer K=4", "archer", {"radius": 4}),
    RuleArm("k8", "Archer K=8", "archer", {"radius": 8}, key=True),
    RuleArm("late4", "late, 1/4", "saber+late", {"share": 0.25}),
    LATE,
    RuleArm("surprise1", "surprise, 0.1", "saber+surprise", {"nats": 0.1}),
    SURPRISE,
    *(
        RuleArm(
            f"doubt-{by}",
            f"late, 1/2; doubt by {by} below {doubt:g}",
            LATE.method,
            {**LATE.settings, "doubt": doubt, **({} if by == "confidence" else {"doubt_by": by})},
        )
        for by, doubt in (("confidence", 0.99), ("kept", 1.0), ("lead", 0.99))
    ),
)
"""When to refresh, and by which sign to doubt."""

DOUBTS: Mapping[str, Mapping[str, Any]] = {
    "none": {},
    "kept": {"doubt": 1.0, "doubt_by": "kept"},
    "0.99": {"doubt": 0.99},
    "0.9": {"doubt": 0.9},
}
FEWEST: Mapping[int, Mapping[str, Any]] = {2: {}, 4: {"n": 4}}
"""Tokens that every update places at least; two are Saber's default."""
DIALS = tuple(
    RuleArm(
        f"{n}-{rule.name}-{doubt}",
        f"n = {n}; {rule.label}; doubt: {doubt}",
        rule.method,
        {**rule.settings, **FEWEST[n], **DOUBTS[doubt]},
        line=f"n = {n}, {rule.label}",
    )
    for n in FEWEST
    for rule in (LATE, SURPRISE)
    for doubt in DOUBTS
)
"""Tokens per update, refresh rule and doubt together: how little an answer can cost, and what that loses."""
ARMS = (*RULES, *DIALS)


def sizes(workspace: Workspace) -> dict[str, int]:
    """Problems of the dev task and of its long form; of the task itself where there is no dev task."""
    few = min(workspace.scale.problems, MOST)
    if workspace.dev_task is None:
        return {workspace.task: few}
    problems = {workspace.dev_task: few}
    if workspace.dev_task in LONG:
        problems[LONG[workspace.dev_task]] = max(1, int(LONG_SHARE * few))
    return problems


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


def _row(workspace: Workspace, rule: RuleArm, arms: Mapping[str, Arm]) -> Row:
    arm, saber = arms[rule.name], arms[SABER.name]
    row = compared(arm, rule.label, saber, workspace.model)
    low, high = wilson(row["same_completions"], row["n"])
    row |= {
        "cost": 1.0 / row["speedup_predicted"],
        "identical": PERCENT * row["same_completions"] / row["n"],
        "identical_interval": [PERCENT * low, PERCENT * high],
    }
    if rule.key:
        few = arm.keys[: min(WATCHED, workspace.scale.probed)]
        calls = [
            [event.call == "full" for event in problem.trajectory.updates]
            for _, problem in decoded_again(workspace, arm, few)
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
        arms = [row for row in result["rows"] if row["task"] == task]
        rows, dials = ([row for row in arms if bool(row["line"]) == dial] for dial in (False, True))
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
                [series(_short(row["arm"]), [row["cost"]], [row], name) for row in rows],
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


def _along(line: str, rows: Sequence[Row]) -> Series:
    own = [row for row in rows if row["line"] == line]
    return Series(line, [row["cost"] for row in own], [row["base"] for row in own])


def _short(label: str) -> str:
    """For a legend: what sets the arm apart."""
    _, _, doubt = label.partition("; doubt by ")
    return f"doubt: {doubt.partition(' ')[0]}" if doubt else label


def _table(title: str, rows: Sequence[Row]) -> Table:
    timed = next((row["timed"] for row in rows if "timed" in row), 0)
    return table_of(
        f"{title}, n = {rows[0]['n']}",
        (*FIELDS, Field("speedup")) if timed else FIELDS,
        rows,
        [
            "Cost: counted operations over those of eager Saber. As Saber: completions equal to Saber's. "
            "Won, lost: problems that only the rule or only Saber solves; p: exact McNemar, not adjusted.",
            *([f"Speedup: measured on {timed} problems, decoded in turn."] if timed else []),
            "These problems were used to choose rules and settings: they confirm nothing.",
        ],
    )
