"""Rollback with and without the cache: revised positions, updates, and what re-masks are good for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archer.pages.figures import Labels, bars
from archer.pages.tables import Column, Table
from archer.runs.statistics import bootstrap, mean, ratio_of_sums
from archer.runs.workspace import Workspace
from archer_studies.arms import PERCENT, published, series, value
from archer_studies.study import Measured, Presented, Row, Study
from archer_studies.trajectories import Told, retell, revised_between, revised_ever, taken_back

RADIUS = 8
NONE = (None, None)
PAPER = {
    "where": "Table 'Rollback activity with K=8', revised positions in per cent and mean updates",
    "mbpp": {
        "no-rollback": [0.00, 65.97],
        "saber": [29.18, 146.98],
        "archer": [30.03, 147.51],
    },
    "humaneval": {
        "no-rollback": [0.00, 66.26],
        "saber": [27.87, 157.55],
        "archer": [30.24, 158.49],
    },
    "livecodebench": {
        "no-rollback": [0.00, 74.73],
        "saber": [28.21, 158.83],
        "archer": [26.93, 163.25],
    },
}
ARMS: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("no-rollback", "No rollback", {}),
    ("saber", "Saber", {}),
    ("archer", f"Archer K={RADIUS}", {"radius": RADIUS}),
)
COLUMNS = (
    Column("decoder"),
    Column("revised positions (%)"),
    Column("inside updates, too (%)"),
    Column("updates"),
    Column("re-masks"),
    Column("re-masks that change the token (%)", 1),
)


def measure(workspace: Workspace) -> Measured:
    rows = []
    for method, label, settings in ARMS:
        arm = workspace.arm(method, **settings)
        told = [found for _, found in retell(workspace, arm, arm.keys[: workspace.scale.probed])]
        rows.append({"method": method, "arm": label, **activity(told)})
    return Measured(rows[0]["n"], rows, {"radius": RADIUS})


def activity(told: Sequence[Told]) -> Row:
    """Means over problems with their intervals; shares of re-masks over all of them."""
    counted = [revisions(each) for each in told]
    row: Row = {"n": len(told)}
    for name in ("revised", "revised_ever", "updates"):
        values = [each[name] for each in counted]
        row[name], row[f"{name}_interval"] = mean(values), list(bootstrap(values, mean))
    row["remasks"] = sum(each["remasks"] for each in counted)
    pairs = [(each["changed"], each["remasks"]) for each in counted if each["remasks"]]
    row["changed"] = PERCENT * ratio_of_sums(pairs) if pairs else None
    if pairs:
        row["changed_interval"] = [PERCENT * end for end in bootstrap(pairs, ratio_of_sums)]
    return row


def revisions(told: Told) -> dict[str, float]:
    """Of one trajectory: revised positions in per cent of the response, and its re-masks."""
    start, updates, states = told.trajectory.start, told.trajectory.updates, told.states
    taken = taken_back(start, updates)
    return {
        "revised": PERCENT * len(revised_between(states, start.mask)) / start.length,
        "revised_ever": PERCENT * len(revised_ever(updates)) / start.length,
        "updates": float(len(updates)),
        "remasks": len(taken),
        "changed": sum(states[-1][at] != token for at, token in taken),
    }


def present(result: Mapping[str, Any]) -> Presented:
    theirs = published(result["paper"], result["settings"]["task"])
    table = Table(
        f"Rollback activity on {result['settings']['task']}, n = {result['n']}",
        COLUMNS,
        [
            [
                row["arm"],
                value(row, "revised", theirs.get(row["method"], NONE)[0]),
                value(row, "revised_ever"),
                value(row, "updates", theirs.get(row["method"], NONE)[1]),
                row["remasks"],
                value(row, "changed"),
            ]
            for row in result["rows"]
        ],
        [
            "Revised: a position that loses or changes its token between two updates, as a share of the "
            "response. The next column also counts tokens placed and taken back inside one update.",
            "A re-mask changes the token if the final response has another one at its position.",
            "The paper's columns are LLaDA-8B with a response of 256; on pocket those of MBPP.",
        ],
    )
    names = [row["arm"] for row in result["rows"]]
    figure = bars(
        [
            series("between updates", names, result["rows"], "revised"),
            series("inside updates, too", names, result["rows"], "revised_ever"),
        ],
        Labels("Revised positions", "decoder", "share of the response (%)"),
    )
    return Presented([table], {"revised": figure})


STUDY = Study(
    name="rollback",
    title="Rollback activity",
    paper=PAPER,
    measure=measure,
    present=present,
)
