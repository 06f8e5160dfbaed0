"""The radius: quality, time and refreshes for K from 1 to infinity, and eager Saber beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archer.report.figures import Labels, Series, frontier, lines
from archer.report.tables import Column, Table
from archer.studies.arms import against, described, value
from archer.studies.lab import Lab
from archer.studies.study import Measured, Presented, Study

RADII: tuple[int | str, ...] = (1, 2, 4, 8, 16, 32, "inf")
PAPER = {
    "where": "Table 6, LLaDA-8B-Instruct",
    "mbpp": {
        "saber": [44.03, 1.00],
        "1": [44.03, 1.00],
        "2": [44.26, 1.01],
        "4": [44.96, 1.19],
        "8": [44.96, 1.30],
        "16": [43.33, 1.42],
        "32": [42.62, 1.43],
        "inf": [42.62, 1.41],
    },
}
"""Pass@1 and speedup over Saber on MBPP."""


def measure(lab: Lab) -> Measured:
    saber = lab.arm("saber")
    rows = [
        {
            "radius": "saber",
            **described(saber, "Saber", lab.model),
            **against(saber, saber, lab.model),
        }
    ]
    for radius in RADII:
        arm = lab.arm("archer", radius=radius)
        named = described(arm, f"Archer K={radius}", lab.model)
        rows.append({"radius": str(radius), **named, **against(arm, saber, lab.model)})
    return Measured(len(saber.keys), rows, {"radii": list(RADII)})


def present(result: Mapping[str, Any]) -> Presented:
    paper = result["paper"]["mbpp"]
    table = Table(
        f"Radius sweep on {result['settings']['task']}, n = {result['n']}",
        [
            Column("setting"),
            Column("Pass@1 (%)", 1),
            Column("extended (%)", 1),
            Column("seconds", 3),
            Column("speedup"),
            Column("predicted"),
            Column("refreshes"),
            Column("updates", 1),
            Column("p"),
        ],
        [
            [
                row["arm"],
                value(row, "base", paper[row["radius"]][0]),
                value(row, "extended"),
                value(row, "seconds"),
                value(row, "speedup", paper[row["radius"]][1]),
                row["speedup_predicted"],
                row["refresh_fraction"],
                row["updates"],
                row["base_p"],
            ]
            for row in result["rows"]
        ],
        [
            "The paper's column is LLaDA-8B on MBPP: another model and another benchmark.",
            "p: exact McNemar against Saber. Predicted: from the passes made and their operations.",
        ],
    )
    sweep = [row for row in result["rows"] if row["radius"] != "saber"]
    names = [row["radius"] for row in sweep]
    sensitivity = lines(
        [
            _series("base", "Pass@1, base", names, sweep),
            _series("extended", "extended", names, sweep),
        ],
        Labels("Pass@1 over the radius", "radius K", "Pass@1 (%)"),
    )
    points = [Series(row["arm"], [row["seconds"]], [row["base"]]) for row in result["rows"]]
    trade = frontier(points, Labels("Quality against time", "seconds per problem", "Pass@1 (%)"))
    return Presented([table], {"sensitivity": sensitivity, "frontier": trade})


def _series(suite: str, label: str, names: list[str], rows: list[dict[str, Any]]) -> Series:
    return Series(
        label,
        names,
        [row[suite] for row in rows],
        [row[f"{suite}_interval"][0] for row in rows],
        [row[f"{suite}_interval"][1] for row in rows],
    )


STUDY = Study(
    name="radius",
    title="Refresh radius",
    paper=PAPER,
    measure=measure,
    present=present,
)
