"""The confirmation of the refresh rules, as planned in docs/log.md before its problems were decoded.

Four arms on a thousand problems with short and with long prompts.  A result of one of the two tasks alone is
adjusted for all tests of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archer.pages.tables import Column, Table, Value
from archer.runs.statistics import Pairs, bootstrap, mean
from archer.runs.workspace import ArmRequest, Workspace
from archer_studies.arms import PERCENT
from archer_studies.confirmation import (
    LEVEL,
    SABER,
    TASKS,
    Arms,
    adjusted,
    all_wanted,
    answers_of,
    compared,
    outcome,
    run,
    scores,
    tasks,
)
from archer_studies.study import Measured, Presented, Row, Study

FIXED = "archer"
ARMS: Arms = {
    SABER: ("Saber", {}),
    FIXED: ("Archer K=8", {"radius": 8}),
    "saber+late": ("late, share 0.5", {"share": 0.5}),
    "saber+surprise": ("surprise, 0.3 nats", {"nats": 0.3}),
}
RULES = tuple(method for method in ARMS if method not in (SABER, FIXED))
MORE_IDENTICAL = 8.0
"""Points of identical completions that a rule must have above K = 8."""


def arms(workspace: Workspace) -> list[ArmRequest]:
    return all_wanted(workspace, ARMS)


def measure(workspace: Workspace) -> Measured:
    rows: list[Row] = []
    for task in tasks(workspace):
        found = run(workspace, ARMS, task)
        described = {
            method: compared(arm, ARMS[method][0], found[SABER], workspace)
            for method, arm in found.items()
        }
        fixed = described[FIXED]
        rows += [
            {"task": task, "method": method, **row, **_beside(row, fixed)}
            for method, row in described.items()
        ]
    return Measured(rows[0]["n"], rows, {"tasks": list(tasks(workspace))})


def _beside(row: Row, fixed: Row) -> Row:
    """What the plan asks of an arm beside K = 8."""
    gain = [
        PERCENT * (int(mine) - int(theirs))
        for mine, theirs in zip(row["as_saber"], fixed["as_saber"], strict=True)
    ]
    return {
        "cost_fixed": fixed["cost"],
        "identical_gain": mean(gain),
        "identical_gain_interval": list(bootstrap(gain, mean)),
        "identical_p": Pairs(
            *([digit == "1" for digit in each["as_saber"]] for each in (row, fixed))
        ).p,
    }


def judged(rows: Sequence[Row]) -> list[Row]:
    """The rules' rows, adjusted for all tests of the plan, with what it says of each."""
    tested = [row for row in rows if row["method"] in RULES]
    tests = len(RULES) * len(TASKS)
    both = zip(
        adjusted(tested, "identical_p", tests), adjusted(tested, "not_worse_p", tests), strict=True
    )
    return [
        {
            **row,
            "identical_adjusted": identical,
            "not_worse_adjusted": answers,
            "identity_holds": row["identical_gain"] >= MORE_IDENTICAL and identical < LEVEL,
            "cost_holds": row["cost"] <= row["cost_fixed"],
            "answers_hold": answers < LEVEL,
        }
        for row, (identical, answers) in zip(tested, both, strict=True)
    ]


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
    return Presented(
        [
            *(
                scores(f"Confirmation on {task}", [row for row in rows if row["task"] == task])
                for task in result["settings"]["tasks"]
            ),
            _tests(judged(rows)),
        ],
        notes=outcome(ARMS, succeeded(rows)),
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
                answers_of(row),
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
    arms=arms,
)
