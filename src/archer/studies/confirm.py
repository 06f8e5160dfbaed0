"""The confirmation of the refresh rules, as planned in docs/log.md before its problems were decoded.

Four arms on a thousand problems with short and with long prompts.  A result of one of the two tasks alone is
adjusted for all tests of the plan.  Nothing here chooses anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archer.report.tables import Column, Table, Value
from archer.runs.statistics import bootstrap, holm, mcnemar, mean, not_worse
from archer.studies.arms import PERCENT, against, described, operations_of, value
from archer.studies.in_turn import in_turn
from archer.studies.study import Measured, Presented, Row, Study
from archer.studies.workspace import FULL, Arm, Wanted, Workspace

SABER, FIXED = "saber", "archer"
TASKS = ("pocket-confirm", "pocket-confirm-long")
ARMS: Mapping[str, tuple[str, dict[str, Any]]] = {
    SABER: ("Saber", {}),
    FIXED: ("Archer K=8", {"radius": 8}),
    "saber+late": ("late, share 0.5", {"share": 0.5}),
    "saber+surprise": ("surprise, 0.3 nats", {"nats": 0.3}),
}
"""Label and settings of each planned arm."""
RULES = tuple(method for method in ARMS if method not in (SABER, FIXED))
MORE_IDENTICAL = 8.0
"""Points of identical completions that a rule must have above K = 8."""
MARGIN = 0.02
"""By how much Pass@1 must not be lower than Saber's."""
LEVEL = 0.05


def wanted(workspace: Workspace, task: str) -> list[Wanted]:
    """The planned arms of a task: all of its problems, fewer only where fewer are asked for everywhere."""
    whole = workspace.scale.problems >= FULL.problems
    problems = len(workspace.open(task).samples()) if whole else workspace.scale.problems
    return [Wanted(method, settings, task, problems) for method, (_, settings) in ARMS.items()]


def tasks(workspace: Workspace) -> tuple[str, ...]:
    """Both, or the one that is named."""
    return (workspace.task,) if workspace.task in TASKS else TASKS


def all_wanted(workspace: Workspace) -> list[Wanted]:
    return [each for task in tasks(workspace) for each in wanted(workspace, task)]


def measure(workspace: Workspace) -> Measured:
    rows: list[Row] = []
    for task in tasks(workspace):
        arms = {each.method: workspace.run(each) for each in wanted(workspace, task)}
        arms = in_turn(workspace, arms)
        rows += [
            {
                "task": task,
                "method": method,
                **described(arm, ARMS[method][0], workspace.model),
                **against(arm, arms[SABER], workspace.model),
                **_tested(workspace, arm, arms),
            }
            for method, arm in arms.items()
        ]
    return Measured(rows[0]["n"], rows, {"tasks": list(tasks(workspace))})


def _tested(workspace: Workspace, arm: Arm, arms: Mapping[str, Arm]) -> Row:
    """What the plan asks of one arm."""
    saber, fixed = arms[SABER], arms[FIXED]
    same = [_same(arm, saber, key) for key in arm.keys]
    with_fixed = [_same(fixed, saber, key) for key in arm.keys]
    gain = [PERCENT * (mine - theirs) for mine, theirs in zip(same, with_fixed, strict=True)]
    wins, losses = sum(each > 0 for each in gain), sum(each < 0 for each in gain)
    answers = [PERCENT * (float(arm.passed(key)) - float(saber.passed(key))) for key in arm.keys]
    better, worse = sum(each > 0 for each in answers), sum(each < 0 for each in answers)
    eager = operations_of(saber, workspace.model)
    return {
        "cost": operations_of(arm, workspace.model) / eager,
        "cost_fixed": operations_of(fixed, workspace.model) / eager,
        "identical": PERCENT * mean([float(each) for each in same]),
        "identical_gain": mean(gain),
        "identical_gain_interval": list(bootstrap(gain, mean)),
        "identical_p": mcnemar(wins, losses),
        "answers": mean(answers),
        "answers_interval": list(bootstrap(answers, mean)),
        "not_worse_p": not_worse(better, worse, len(answers), MARGIN),
    }


def _same(arm: Arm, other: Arm, key: str) -> bool:
    mine, theirs = (each.run.recorded.samples[key].tokens for each in (arm, other))
    return bool(mine == theirs)


def judged(rows: Sequence[Row]) -> list[Row]:
    """The rules' rows, adjusted, with what the plan says of each; a missing task counts as p = 1."""
    tested = [row for row in rows if row["method"] in RULES]
    missing = len(RULES) * len(TASKS) - len(tested)
    adjusted = {
        name: holm([*(row[name] for row in tested), *[1.0] * missing])
        for name in ("identical_p", "not_worse_p")
    }
    found = []
    for place, row in enumerate(tested):
        identical, answers = adjusted["identical_p"][place], adjusted["not_worse_p"][place]
        found.append(
            {
                **row,
                "identical_adjusted": identical,
                "not_worse_adjusted": answers,
                "identity_holds": row["identical_gain"] >= MORE_IDENTICAL and identical < LEVEL,
                "cost_holds": row["cost"] <= row["cost_fixed"],
                "answers_hold": answers < LEVEL,
            }
        )
    return found


def succeeded(rows: Sequence[Row]) -> dict[str, bool]:
    """Of each rule whether everything that the plan asks holds on both tasks."""
    found = judged(rows)
    return {
        method: len(mine := [row for row in found if row["method"] == method]) == len(TASKS)
        and all(row["identity_holds"] and row["cost_holds"] and row["answers_hold"] for row in mine)
        for method in RULES
    }


def present(result: Mapping[str, Any]) -> Presented:
    rows = result["rows"]
    outcome = succeeded(rows)
    told = [
        f"{ARMS[method][0]}: {'success' if good else 'no success'} as the plan defines it."
        for method, good in outcome.items()
    ]
    return Presented(
        [
            *(
                _scores(task, [row for row in rows if row["task"] == task])
                for task in result["settings"]["tasks"]
            ),
            _tests(judged(rows)),
        ],
        notes=told,
    )


def _scores(task: str, rows: Sequence[Row]) -> Table:
    columns = [Column("arm"), Column("Pass@1 (%)", 1), Column("extended (%)", 1), Column("cost", 3)]
    columns += [Column("as Saber (%)", 1), Column("won"), Column("lost"), Column("refreshes")]
    columns += [Column("updates", 1), Column("seconds", 3), Column("speedup")]
    return Table(
        f"Confirmation on {task}, n = {rows[0]['n']}",
        columns,
        [
            [
                row["arm"],
                value(row, "base"),
                value(row, "extended"),
                row["cost"],
                row["identical"],
                row["base_only"],
                row["base_only_other"],
                row["refresh_fraction"],
                row["updates"],
                value(row, "seconds"),
                value(row, "speedup"),
            ]
            for row in rows
        ],
        [
            "Cost: counted operations over those of eager Saber. As Saber: completions equal to "
            "Saber's. Won and lost: problems that only this arm or only Saber solves. Seconds and "
            f"speedup from {rows[0]['timed']} problems that all arms decoded in turn.",
        ],
    )


def _tests(rows: Sequence[Row]) -> Table:
    columns = [Column("rule"), Column("task"), Column("more identical than K=8 (points)", 1)]
    columns += [Column("p", 4, chance=True), Column("cost against K=8", 3)]
    columns += [Column("Pass@1 against Saber (points)", 1), Column("p of 2 lower", 4, chance=True)]
    columns += [Column("holds")]
    return Table(
        f"The planned tests, n = {rows[0]['n']}",
        columns,
        [
            [
                row["arm"],
                row["task"],
                Value(row["identical_gain"], *row["identical_gain_interval"]),
                row["identical_adjusted"],
                row["cost"] / row["cost_fixed"],
                Value(row["answers"], *row["answers_interval"]),
                row["not_worse_adjusted"],
                _holding(row),
            ]
            for row in rows
        ],
        [
            "p: exact McNemar of identical completions, and Tango's score test of a Pass@1 that is "
            "lower by 2 points or more; both adjusted by Holm for the four tests of the plan. "
            "Intervals: 95 %, bootstrap over problems, not adjusted.",
        ],
    )


def _holding(row: Row) -> str:
    names = {"identity_holds": "identity", "cost_holds": "cost", "answers_hold": "answers"}
    return ", ".join(label for name, label in names.items() if row[name]) or "nothing"


STUDY = Study(
    name="confirm",
    title="Confirmation of the refresh rules",
    paper={},
    measure=measure,
    present=present,
    arms=all_wanted,
)
