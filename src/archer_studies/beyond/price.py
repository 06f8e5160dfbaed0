"""The third confirmation: the price of an answer, on sealed problems (docs/plans/confirm-price.md).

Functions with short and with long prompts, and grids of Sudoku.  The plan is data here, and nothing is
chosen: arms, tests and bounds are those that were committed before the first problem was decoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from archer.pages.page import Presented
from archer.pages.tables import Field, Table, p_value, table_of
from archer.runs.statistics import Pairs, holm, wilson
from archer.runs.workspace import FULL, Arm, Workspace
from archer_studies.arms import GRIDS, PERCENT, companion, digits, facts
from archer_studies.equal_cost import Spent, gain, ratio
from archer_studies.study import Measured, Row, Study

SHORT, LONG, SUDOKU = "pocket-confirm3", "pocket-confirm3-long", "pocket-sudoku-confirm"
PROBLEMS = {SHORT: 1500, LONG: 500, SUDOKU: 1500}
"""The first ones of each task; long prompts take five times as long."""
BATCH = 16
"""Problems decoded together; what a row becomes does not depend on the others."""
MARGIN, LEVEL = 0.02, 0.05
"""By how much Pass@1 must not be lower than Saber's, and the level of the tests."""
MOST_COST = {SHORT: 0.30, LONG: 0.22}
"""Operations over eager Saber's that the default may take at most."""
MOST_WIDER = 1.3
"""Its operations with a limit of 256 tokens over those with 64."""
MILLION = 1e6

Role = Literal["saber", "default", "wide", "rollback", "without"]


@dataclass(frozen=True)
class PricedArm:
    """A method with settings, and what the plan wants of it."""

    role: Role
    label: str
    method: str
    settings: Mapping[str, Any]


FUNCTIONS = (
    PricedArm("saber", "Saber, eager", "saber", {}),
    PricedArm("default", "archer-cut", "archer-cut", {}),
    PricedArm("wide", "archer-cut, up to 256 tokens", "archer-cut", {"length": 256}),
    PricedArm("without", "threshold .99, cut", "threshold:0.99+surprise", {"canvas": "auto"}),
    PricedArm("without", "threshold .95, cut", "threshold:0.95+surprise", {"canvas": "auto"}),
)
PUZZLES = (
    PricedArm("rollback", "saber-doubt, cap .99", "saber-doubt+surprise", {"cap": 0.99}),
    PricedArm("without", "threshold .99", "threshold:0.99+surprise", {}),
    PricedArm("without", "threshold .95", "threshold:0.95+surprise", {}),
)
ARMS: Mapping[str, Sequence[PricedArm]] = {SHORT: FUNCTIONS, LONG: FUNCTIONS, SUDOKU: PUZZLES}
ROLLBACK: Mapping[str, Role] = {SHORT: "default", LONG: "default", SUDOKU: "rollback"}
"""The arm that is set beside those without rollback."""


def tasks(workspace: Workspace) -> tuple[str, ...]:
    """All three, or the one that is named."""
    return (workspace.task,) if workspace.task in PROBLEMS else tuple(PROBLEMS)


def measure(workspace: Workspace) -> Measured:
    grids = companion(workspace, GRIDS) if SUDOKU in tasks(workspace) else None
    rows = [
        row
        for task in tasks(workspace)
        for space in [grids if task == SUDOKU and grids is not None else workspace]
        for row in _rows(space, task)
    ]
    settings = {"batch": BATCH, "tasks": list(tasks(workspace))}
    return Measured(sum(row["n"] for row in rows), rows, settings)


def _rows(workspace: Workspace, task: str) -> list[Row]:
    whole = workspace.scale.problems >= FULL.problems
    problems = PROBLEMS[task] if whole else workspace.scale.problems
    finished = [(planned, decoded(workspace, planned, task, problems)) for planned in ARMS[task]]
    return [{"task": task, **row_of(planned, arm, workspace)} for planned, arm in finished]


def decoded(workspace: Workspace, arm: PricedArm, task: str, problems: int) -> Arm:
    """The run of an arm on the first problems of a task, several of them at a time."""
    request = workspace.request(arm.method, task, problems, **arm.settings)
    return workspace.finished(replace(request, batch=BATCH))


def row_of(planned: PricedArm, arm: Arm, workspace: Workspace) -> Row:
    """An arm with what every problem came to and took, so that others can be paired with it."""
    solved, n = arm.solved(), len(arm.keys)
    samples = [arm.run.recorded.samples[key] for key in arm.keys]
    suites = arm.run.recorded.grades[arm.keys[0]].suites
    each = arm.summary.per_problem
    return {
        "model": workspace.model.name,
        "role": planned.role,
        "arm": planned.label,
        "method": planned.method,
        "settings": dict(planned.settings),
        "n": n,
        **{suite: PERCENT * sum(arm.solved(suite)) / n for suite in suites},
        "base_interval": [PERCENT * share for share in wilson(sum(solved), n)],
        "updates": each["updates"],
        "full_passes": each["full_passes"],
        "solved": digits(solved),
        "million_operations": [round(sample.operations / MILLION) for sample in samples],
    }


def judged(rows: Sequence[Row]) -> list[Row]:
    """Every test of the plan, adjusted for all of them; one that was not made counts as p = 1."""
    tests = [test for task in PROBLEMS for test in _tests(task, rows)]
    adjusted = holm([test["p"] for test in tests], TESTS)
    return [
        {**test, "adjusted": p, "holds": p < LEVEL} for test, p in zip(tests, adjusted, strict=True)
    ]


TESTS = 7
"""Two arms beside Saber on two tasks, and rollback beside none on three."""


def _tests(task: str, rows: Sequence[Row]) -> list[Row]:
    mine = {row["role"]: row for row in rows if row["task"] == task}
    tests: list[Row] = []
    for role in ("default", "wide"):
        if role in mine and "saber" in mine:
            pairs = Pairs(*(spent(mine[each]).solved for each in (role, "saber")))
            low, high = pairs.interval or (-1.0, 1.0)
            tests.append(
                {
                    "kind": "not 2 points below Saber",
                    "task": task,
                    "arm": mine[role]["arm"],
                    "n": pairs.n,
                    "points": PERCENT * (pairs.only_first - pairs.only_second) / pairs.n,
                    "points_interval": [-PERCENT * high, -PERCENT * low],
                    "won": pairs.only_first,
                    "lost": pairs.only_second,
                    "p": pairs.not_worse(MARGIN),
                }
            )
    without = [spent(row) for row in rows if (row["task"], row["role"]) == (task, "without")]
    if ROLLBACK[task] in mine and without:
        row = mine[ROLLBACK[task]]
        above = gain(spent(row), without)
        tests.append(
            {
                "kind": "rollback beside none at equal cost",
                "task": task,
                "arm": row["arm"],
                "n": row["n"],
                "points": above.points,
                "points_interval": list(above.interval),
                "p": above.p,
            }
        )
    return tests


def prices(rows: Sequence[Row]) -> list[Row]:
    """The costs that the plan bounds; a bound holds where the interval's upper end is within it."""
    bounded: list[Row] = []
    for task, most in MOST_COST.items():
        mine = {row["role"]: row for row in rows if row["task"] == task}
        for role, other, bound in (
            ("default", "saber", most),
            ("wide", "saber", None),
            ("wide", "default", MOST_WIDER),
        ):
            if role in mine and other in mine:
                cost, interval = ratio(spent(mine[role]), spent(mine[other]))
                bounded.append(
                    {
                        "task": task,
                        "arm": mine[role]["arm"],
                        "beside": mine[other]["arm"],
                        "n": mine[role]["n"],
                        "cost": cost,
                        "cost_interval": list(interval),
                        "most": bound,
                        "holds": None if bound is None else interval[1] <= bound,
                    }
                )
    return bounded


def spent(row: Mapping[str, Any]) -> Spent:
    """What a row tells of every problem."""
    return Spent(facts(row["solved"]), row["million_operations"])


def succeeded(rows: Sequence[Row]) -> bool:
    """Whether all that the plan asks of the default holds: its answers and its price, at 64 and at 256."""
    answers = [test["holds"] for test in judged(rows) if test["kind"].startswith("not")]
    costs = [price["holds"] for price in prices(rows) if price["most"] is not None]
    return (
        len(answers) == 2 * len(MOST_COST)
        and len(costs) == len(answers)
        and all(answers)
        and all(costs)
    )


def present(result: Mapping[str, Any]) -> Presented:
    rows = result["rows"]
    tables = [_test_table(judged(rows))]
    tables += [_price_table(costs)] if (costs := prices(rows)) else []
    tables += [
        _score_table(task, [row for row in rows if row["task"] == task])
        for task in result["settings"]["tasks"]
    ]
    good = succeeded(rows)
    note = f"archer-cut: {'success' if good else 'no success'} as the plan defines it."
    return Presented(tables, notes=[note])


def _test_table(tests: Sequence[Row]) -> Table:
    return table_of(
        f"The planned tests, n = {max(test['n'] for test in tests)}",
        (
            Field("kind", "test"),
            Field("task"),
            Field("arm"),
            Field("n"),
            Field("points", "difference (points)", 1),
            Field("won"),
            Field("lost"),
            p_value("adjusted"),
            Field("", "holds", of=lambda row: "yes" if row["holds"] else "no"),
        ),
        tests,
        [
            "Not 2 points below: Tango's score test, one-sided. At equal cost: bootstrap over problems, "
            "two-sided, beside the line through the arms without rollback. All p adjusted by Holm for the "
            f"{TESTS} tests of the plan; intervals are of 95 % and not adjusted.",
        ],
    )


def _price_table(costs: Sequence[Row]) -> Table:
    return table_of(
        f"The planned prices, n = {max(price['n'] for price in costs)}",
        (
            Field("task"),
            Field("arm"),
            Field("beside"),
            Field("cost", digits=3),
            Field("most", digits=2),
            Field(
                "",
                "holds",
                of=lambda row: "" if row["most"] is None else "yes" if row["holds"] else "no",
            ),
        ),
        costs,
        ["Counted operations; the upper end of the interval must be within the bound."],
    )


def _score_table(task: str, rows: Sequence[Row]) -> Table:
    saber = next((row for row in rows if row["role"] == "saber"), None)
    costs = {row["arm"]: ratio(spent(row), spent(saber)) for row in rows if saber is not None}
    shown = [
        row
        if row["arm"] not in costs
        else {**row, "cost": costs[row["arm"]][0], "cost_interval": list(costs[row["arm"]][1])}
        for row in rows
    ]
    fields = [
        Field("arm"),
        Field("base", "solved (%)", 1),
        *([Field("extended", "extended (%)", 1), Field("cost", digits=3)] if costs else []),
        Field("", "operations (G)", 2, of=_billions),
        Field("updates", digits=1),
        Field("full_passes", "full passes", 1),
    ]
    return table_of(
        f"Third confirmation on {task}, n = {rows[0]['n']}",
        fields,
        shown,
        ["Cost: counted operations over those of eager Saber with 64 tokens."] if costs else [],
    )


def _billions(row: Mapping[str, Any]) -> float:
    each = row["million_operations"]
    return float(sum(each) / len(each) / 1e3)


STUDY = Study(
    "confirm-price",
    "Confirmation of the price of an answer",
    "The cut canvas beside Saber, and rollback beside none at equal cost, on sealed problems",
    measure,
    present,
)
