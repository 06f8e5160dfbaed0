"""Confirmations on sealed problems, each planned in docs/plans before its problems were decoded.

A plan is data: arms, and what its rules must show beside eager Saber on short and on long prompts.  Nothing
is chosen here.  A result of one of the two tasks alone is adjusted for all tests of the plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from archer.pages.page import Presented
from archer.pages.tables import Field, Table, p_value, table_of
from archer.runs.statistics import Pairs, bootstrap, holm, mean
from archer.runs.workspace import FULL, Arm, Workspace
from archer_studies import arms
from archer_studies.arms import (
    PERCENT,
    SCORES,
    SHIFTED,
    WON,
    companion,
    counted,
    digits,
    facts,
    in_turn,
)
from archer_studies.beyond.refresh import DOUBTS
from archer_studies.study import Measured, Row, Study

TASKS = ("pocket-confirm", "pocket-confirm-long")
SABER, FIXED = "saber", "archer"
MARGIN = 0.02
"""By how much Pass@1 must not be lower than Saber's."""
LEVEL = 0.05
MORE_IDENTICAL = 8.0
"""Points of identical completions that a rule must have above K = 8, where a plan has that arm."""


@dataclass(frozen=True)
class ConfirmationPlan:
    """What was planned."""

    called: str
    arms: Mapping[str, tuple[str, dict[str, Any]]]
    """Label and settings of each method.  Saber is one of them; where FIXED is another, the rules must also
    have more identical completions than it, at no higher cost."""
    companion: str | None = None
    """A model of the same training that is told beside the tested one, without a test."""
    tests_first: bool = False
    """Whether the table of the tests stands before those of the scores."""

    @property
    def rules(self) -> list[str]:
        return [method for method in self.arms if method not in (SABER, FIXED)]

    @property
    def tests(self) -> int:
        return len(self.rules) * len(TASKS)


REFRESH = ConfirmationPlan(
    "Confirmation",
    {
        SABER: ("Saber", {}),
        FIXED: ("Archer K=8", {"radius": 8}),
        "saber+late": ("late, share 0.5", {"share": 0.5}),
        "saber+surprise": ("surprise, 0.3 nats", {"nats": 0.3}),
    },
)
"""The refresh rules."""
DOUBT = ConfirmationPlan(
    "Second confirmation",
    {
        SABER: ("Saber", {}),
        "saber+surprise": ("surprise, 0.3 nats, kept", {"nats": 0.3, **DOUBTS["kept"]}),
        "saber-tail+late": (
            "tail until the next look, late, share 0.5, kept",
            {"share": 0.5, "wake": "look", **DOUBTS["kept"]},
        ),
    },
    companion=SHIFTED,
    tests_first=True,
)
"""Saber that takes back only what lost confidence."""


def tasks(workspace: Workspace) -> tuple[str, ...]:
    """Both, or the one that is named."""
    return (workspace.task,) if workspace.task in TASKS else TASKS


def measure(plan: ConfirmationPlan, workspace: Workspace) -> Measured:
    other = companion(workspace, plan.companion) if plan.companion else None
    rows = [
        row
        for each in (workspace, other)
        if each is not None
        for task in tasks(workspace)
        for row in _rows(plan, each, task)
    ]
    settings = {"tasks": list(tasks(workspace)), "tested": workspace.model.name}
    return Measured(rows[0]["n"], rows, settings)


def problems_of(workspace: Workspace, task: str) -> int:
    """All of a task; fewer only where fewer are asked for everywhere."""
    whole = workspace.scale.problems >= FULL.problems
    return len(workspace.open(task).samples()) if whole else workspace.scale.problems


def _rows(plan: ConfirmationPlan, workspace: Workspace, task: str) -> list[Row]:
    problems = problems_of(workspace, task)
    finished = in_turn(
        workspace,
        {
            method: workspace.arm(method, task, problems, **settings)
            for method, (_, settings) in plan.arms.items()
        },
    )
    rows = {
        method: compared(arm, plan.arms[method][0], finished[SABER], workspace)
        for method, arm in finished.items()
    }
    return [
        {
            "model": workspace.model.name,
            "task": task,
            "method": method,
            **row,
            **(_beside(row, rows[FIXED]) if FIXED in rows else {}),
        }
        for method, row in rows.items()
    ]


def compared(arm: Arm, label: str, saber: Arm, workspace: Workspace) -> Row:
    """A planned arm beside eager Saber, with every problem's verdict: later arms can be paired with it."""
    same = [
        arm.run.recorded.samples[key].tokens == saber.run.recorded.samples[key].tokens
        for key in arm.keys
    ]
    pairs = Pairs(arm.solved(), saber.solved())
    row = arms.compared(arm, label, saber, workspace.model)
    return {
        **row,
        **counted(arm, saber),
        "identical": PERCENT * row["same_completions"] / row["n"],
        **_gain("answers", pairs),
        "not_worse_p": pairs.not_worse(MARGIN),
        "solved": digits(pairs.first),
        "as_saber": digits(same),
    }


def _beside(row: Row, fixed: Row) -> Row:
    """What a plan asks of an arm beside K = 8."""
    pairs = Pairs(*(facts(each["as_saber"]) for each in (row, fixed)))
    return {
        "cost_fixed": fixed["cost"],
        **_gain("identical_gain", pairs),
        "identical_p": pairs.p,
    }


def _gain(name: str, pairs: Pairs) -> Row:
    """Points that the first has above the second."""
    points = [
        PERCENT * (float(mine) - float(other))
        for mine, other in zip(pairs.first, pairs.second, strict=True)
    ]
    return {name: mean(points), f"{name}_interval": list(bootstrap(points, mean))}


def judged(plan: ConfirmationPlan, rows: Sequence[Row], tested: str | None = None) -> list[Row]:
    """The rules' rows of the tested model, adjusted for all tests of the plan, with what holds of each."""
    mine = [row for row in rows if row["method"] in plan.rules and row.get("model") == tested]
    verdicts = [
        {**row, "not_worse_adjusted": p, "answers_hold": p < LEVEL}
        for row, p in zip(mine, holm([row["not_worse_p"] for row in mine], plan.tests), strict=True)
    ]
    if FIXED not in plan.arms:
        return verdicts
    return [
        {
            **row,
            "identical_adjusted": p,
            "identity_holds": row["identical_gain"] >= MORE_IDENTICAL and p < LEVEL,
            "cost_holds": row["cost"] <= row["cost_fixed"],
        }
        for row, p in zip(
            verdicts, holm([row["identical_p"] for row in mine], plan.tests), strict=True
        )
    ]


HOLDS = {"identity_holds": "identity", "cost_holds": "cost", "answers_hold": "answers"}


def succeeded(
    plan: ConfirmationPlan, rows: Sequence[Row], tested: str | None = None
) -> dict[str, bool]:
    """Of each rule whether everything that the plan asks holds on both tasks."""
    verdicts = judged(plan, rows, tested)
    return {
        method: len(mine := [row for row in verdicts if row["method"] == method]) == len(TASKS)
        and all(row.get(name, True) for row in mine for name in HOLDS)
        for method in plan.rules
    }


def present(plan: ConfirmationPlan, result: Mapping[str, Any]) -> Presented:
    rows, tested = result["rows"], result["settings"].get("tested")
    tests = [_tests(plan, judged(plan, rows, tested))]
    scores = [
        _scores(
            f"{plan.called} on {task}{f' with {model}' if model else ''}",
            [row for row in rows if (row.get("model"), row["task"]) == (model, task)],
        )
        for model in dict.fromkeys(row.get("model") for row in rows)
        for task in result["settings"]["tasks"]
    ]
    notes = [
        f"{plan.arms[method][0]}: {'success' if good else 'no success'} as the plan defines it."
        for method, good in succeeded(plan, rows, tested).items()
    ]
    return Presented([*tests, *scores] if plan.tests_first else [*scores, *tests], notes=notes)


def _scores(title: str, rows: Sequence[Row]) -> Table:
    """Every arm on one task."""
    return table_of(
        f"{title}, n = {rows[0]['n']}",
        (
            Field("arm"),
            *SCORES,
            Field("cost", digits=3),
            Field("identical", "as Saber (%)", 1),
            *WON,
            Field("refresh_fraction", "refreshes"),
            Field("updates", digits=1),
            Field("seconds", digits=3),
            Field("speedup"),
        ),
        rows,
        [
            "Cost: counted operations over those of eager Saber. As Saber: completions equal to "
            "Saber's. Won and lost: problems that only this arm or only Saber solves. Seconds and "
            f"speedup from {rows[0]['timed']} problems that all arms decoded in turn.",
        ],
    )


def _tests(plan: ConfirmationPlan, rows: Sequence[Row]) -> Table:
    score_test = "Tango's score test of a Pass@1 that is lower by 2 points or more"
    adjusted = "adjusted by Holm for the four tests of the plan."
    if FIXED in plan.arms:
        costs: tuple[Field, ...] = (
            Field("identical_gain", "more identical than K=8 (points)", 1),
            p_value("identical_adjusted"),
            Field("", "cost against K=8", 3, of=lambda row: row["cost"] / row["cost_fixed"]),
        )
        holds = Field("", "holds", of=_holding)
        tested = f"exact McNemar of identical completions, and {score_test}; both {adjusted}"
    else:
        costs = (Field("cost", digits=3), *WON)
        holds = Field("", "holds", of=lambda row: "yes" if row["answers_hold"] else "no")
        tested = f"{score_test}, {adjusted}"
    return table_of(
        f"The planned tests, n = {rows[0]['n']}",
        (
            Field("arm", "rule"),
            Field("task"),
            *costs,
            Field("answers", "Pass@1 against Saber (points)", 1),
            p_value("not_worse_adjusted", "p of 2 lower"),
            holds,
        ),
        rows,
        [f"p: {tested} Intervals: 95 %, bootstrap over problems, not adjusted."],
    )


def _holding(row: Mapping[str, Any]) -> str:
    return ", ".join(label for name, label in HOLDS.items() if row[name]) or "nothing"


STUDY = Study(
    "confirm",
    "Confirmation of the refresh rules",
    "The chosen refresh rules on problems that did not choose them",
    partial(measure, REFRESH),
    partial(present, REFRESH),
)
SECOND = Study(
    "confirm-doubt",
    "Confirmation of rollback on condition",
    "The same for taking back only what lost confidence, at a lower price",
    partial(measure, DOUBT),
    partial(present, DOUBT),
)
