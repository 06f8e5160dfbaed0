"""What the confirmations share: sealed problems, a comparison with eager Saber, and the test of its answers.

Each of them is planned in docs/log.md before it is run, and its arms are a table.  Nothing is chosen here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archer.pages.tables import Column, Table, Value
from archer.runs.statistics import Pairs, bootstrap, holm, mean
from archer.runs.workspace import FULL, Arm, ArmRequest, Workspace
from archer_studies.arms import PERCENT, against, counted, described, value
from archer_studies.in_turn import in_turn
from archer_studies.study import Row

TASKS = ("pocket-confirm", "pocket-confirm-long")
SABER = "saber"
MARGIN = 0.02
"""By how much Pass@1 must not be lower than Saber's."""
LEVEL = 0.05

Arms = Mapping[str, tuple[str, dict[str, Any]]]
"""Label and settings of each planned method; Saber is one of them."""


def tasks(workspace: Workspace) -> tuple[str, ...]:
    """Both, or the one that is named."""
    return (workspace.task,) if workspace.task in TASKS else TASKS


def wanted(workspace: Workspace, arms: Arms, task: str) -> list[ArmRequest]:
    """The planned arms of a task: all of its problems, fewer only where fewer are asked for everywhere."""
    whole = workspace.scale.problems >= FULL.problems
    problems = len(workspace.open(task).samples()) if whole else workspace.scale.problems
    return [ArmRequest(method, settings, task, problems) for method, (_, settings) in arms.items()]


def all_wanted(workspace: Workspace, arms: Arms) -> list[ArmRequest]:
    return [each for task in tasks(workspace) for each in wanted(workspace, arms, task)]


def run(workspace: Workspace, arms: Arms, task: str) -> dict[str, Arm]:
    """The planned arms of a task, some problems of them timed in turn."""
    return in_turn(
        workspace, {each.method: workspace.run(each) for each in wanted(workspace, arms, task)}
    )


def compared(arm: Arm, label: str, saber: Arm, workspace: Workspace) -> Row:
    """A planned arm beside eager Saber, with every problem's verdict: later arms can be paired with it."""
    same = [
        arm.run.recorded.samples[key].tokens == saber.run.recorded.samples[key].tokens
        for key in arm.keys
    ]
    passed = arm.solved()
    answers = [
        PERCENT * (float(mine) - float(saber.passed(key)))
        for mine, key in zip(passed, arm.keys, strict=True)
    ]
    row = described(arm, label, workspace.model) | against(arm, saber, workspace.model)
    return {
        **row,
        **counted(arm, saber),
        "identical": PERCENT * row["same_completions"] / row["n"],
        "answers": mean(answers),
        "answers_interval": list(bootstrap(answers, mean)),
        "not_worse_p": Pairs(passed, saber.solved()).not_worse(MARGIN),
        "solved": digits(passed),
        "as_saber": digits(same),
    }


def digits(facts: Sequence[bool]) -> str:
    """One digit for each problem, in the order of the task."""
    return "".join("1" if each else "0" for each in facts)


def adjusted(rows: Sequence[Row], name: str, tests: int) -> list[float]:
    """Holm's p values of the planned tests; one that was not made counts as p = 1."""
    chances = [row[name] for row in rows]
    return holm([*chances, *[1.0] * (tests - len(chances))])[: len(chances)]


def outcome(arms: Arms, succeeded: Mapping[str, bool]) -> list[str]:
    """Of each rule a sentence."""
    return [
        f"{arms[method][0]}: {'success' if good else 'no success'} as the plan defines it."
        for method, good in succeeded.items()
    ]


def scores(title: str, rows: Sequence[Row]) -> Table:
    """Every arm on one task."""
    columns = [Column("arm"), Column("Pass@1 (%)", 1), Column("extended (%)", 1), Column("cost", 3)]
    columns += [Column("as Saber (%)", 1), Column("won"), Column("lost"), Column("refreshes")]
    columns += [Column("updates", 1), Column("seconds", 3), Column("speedup")]
    return Table(
        f"{title}, n = {rows[0]['n']}",
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


def answers_of(row: Row) -> Value:
    """Points of Pass@1 above Saber's."""
    return Value(row["answers"], *row["answers_interval"])
