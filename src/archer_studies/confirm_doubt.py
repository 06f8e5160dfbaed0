"""The second confirmation: Saber that takes back only what lost confidence, as planned in docs/log.md.

Only the answers of the bundled model are tested.  The same arms with a model of the same training and shifted
logits are told beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archer.pages.tables import Column, Table
from archer.runs.workspace import ArmRequest, Workspace
from archer_studies.companions import SHIFTED, companion
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
from archer_studies.refresh_rules import DOUBTS
from archer_studies.study import Measured, Presented, Row, Study

ARMS: Arms = {
    SABER: ("Saber", {}),
    "saber+surprise": ("surprise, 0.3 nats, kept", {"nats": 0.3, **DOUBTS["kept"]}),
    "saber-tail+late": (
        "tail until the next look, late, share 0.5, kept",
        {"share": 0.5, "wake": "look", **DOUBTS["kept"]},
    ),
}
RULES = tuple(method for method in ARMS if method != SABER)


def arms(workspace: Workspace) -> list[ArmRequest]:
    return all_wanted(workspace, ARMS)


def measure(workspace: Workspace) -> Measured:
    rows = _rows(workspace)
    if (shifted := companion(workspace, SHIFTED)) is not None:
        rows += _rows(shifted)
    settings = {"tasks": list(tasks(workspace)), "tested": workspace.model.name}
    return Measured(rows[0]["n"], rows, settings)


def _rows(workspace: Workspace) -> list[Row]:
    rows: list[Row] = []
    for task in tasks(workspace):
        found = run(workspace, ARMS, task)
        rows += [
            {
                "model": workspace.model.name,
                "task": task,
                "method": method,
                **compared(arm, ARMS[method][0], found[SABER], workspace),
            }
            for method, arm in found.items()
        ]
    return rows


def judged(rows: Sequence[Row], model: str) -> list[Row]:
    """The rules' rows of the tested model, adjusted for all tests of the plan."""
    tested = [row for row in rows if row["method"] in RULES and row["model"] == model]
    chances = adjusted(tested, "not_worse_p", len(RULES) * len(TASKS))
    return [
        {**row, "not_worse_adjusted": chance, "answers_hold": chance < LEVEL}
        for row, chance in zip(tested, chances, strict=True)
    ]


def succeeded(rows: Sequence[Row], model: str) -> dict[str, bool]:
    """Of each rule whether its answers hold on both tasks."""
    found = judged(rows, model)
    return {
        method: [row["answers_hold"] for row in found if row["method"] == method]
        == [True] * len(TASKS)
        for method in RULES
    }


def present(result: Mapping[str, Any]) -> Presented:
    rows, tested = result["rows"], result["settings"]["tested"]
    tables = [_tests(judged(rows, tested))]
    for model in dict.fromkeys(row["model"] for row in rows):
        for task in result["settings"]["tasks"]:
            own = [row for row in rows if (row["model"], row["task"]) == (model, task)]
            tables.append(scores(f"Second confirmation on {task} with {model}", own))
    return Presented(tables, notes=outcome(ARMS, succeeded(rows, tested)))


def _tests(rows: Sequence[Row]) -> Table:
    columns = [Column("rule"), Column("task"), Column("cost", 3), Column("won"), Column("lost")]
    columns += [Column("Pass@1 against Saber (points)", 1), Column("p of 2 lower", 4, chance=True)]
    columns += [Column("holds")]
    return Table(
        f"The planned tests, n = {rows[0]['n']}",
        columns,
        [
            [
                row["arm"],
                row["task"],
                row["cost"],
                row["base_only"],
                row["base_only_other"],
                answers_of(row),
                row["not_worse_adjusted"],
                "yes" if row["answers_hold"] else "no",
            ]
            for row in rows
        ],
        [
            "p: Tango's score test of a Pass@1 that is lower by 2 points or more, adjusted by Holm for the "
            "four tests of the plan. Intervals: 95 %, bootstrap over problems, not adjusted.",
        ],
    )


STUDY = Study(
    name="confirm-doubt",
    title="Confirmation of rollback on condition",
    paper={},
    measure=measure,
    present=present,
    arms=arms,
)
