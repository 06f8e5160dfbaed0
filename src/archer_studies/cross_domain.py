"""Beyond one kind of problem: Saber and Archer by domain.

A task whose problems name their family is split into domains of families: kinds of programs, not other
subjects. Any other task is one domain of its own, so math500, finqa and pubmedqa give the paper's columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from archer.pages.figures import Labels, bars
from archer.pages.tables import Column, Table
from archer.runs.statistics import mean
from archer.runs.workspace import Workspace
from archer.tasks.base import Sample
from archer_studies.arms import against, described, series, value
from archer_studies.in_turn import in_turn
from archer_studies.study import Measured, Presented, Study

RADII = {"math500": 16, "finqa": 16, "pubmedqa": 4}
RADIUS = 8
"""Where the paper names none."""
DOMAINS = {
    "numbers": ("numbers", "range", "members"),
    "strings": ("words", "string"),
    "pairs and dictionaries": ("zip", "neighbours", "entries"),
    "arithmetic": ("arithmetic", "combination"),
    "conditions": ("choice", "comparison"),
}
"""Families of pocket by what their programs work on."""
PAPER = {
    "where": "Table 'Cross-domain comparison with LLaDA-8B-Instruct': accuracy, seconds, speedup",
    "math500": {"Saber": [25.60, 8.13, 1.00], "Archer": [25.00, 6.39, 1.27]},
    "finqa": {"Saber": [29.56, 24.66, 1.00], "Archer": [30.17, 9.86, 2.50]},
    "pubmedqa": {"Saber": [69.40, 14.15, 1.00], "Archer": [69.50, 9.58, 1.48]},
    "overall": {"Saber": [41.52, None, 1.00], "Archer": [41.56, None, 1.75]},
}
NOTHING = (None, None, None)
COLUMNS = (
    Column("domain"),
    Column("n"),
    Column("method"),
    Column("score (%)", 1),
    Column("seconds", 3),
    Column("speedup"),
    Column("predicted"),
    Column("p", 4, chance=True),
)


def domain_of(sample: Sample, task: str) -> str:
    """The domain of a family; the task itself where problems have none."""
    family = sample.row.get("family")
    if family is None:
        return task
    return next((name for name, families in DOMAINS.items() if family in families), str(family))


def measure(workspace: Workspace) -> Measured:
    radius = RADII.get(workspace.task, RADIUS)
    arms = {"Saber": workspace.arm("saber"), "Archer": workspace.arm("archer", radius=radius)}
    domains: dict[str, list[str]] = defaultdict(list)
    for sample in workspace.samples():
        domains[domain_of(sample, workspace.task)].append(str(sample.id))
    rows = []
    few = max(2, workspace.scale.timed // len(domains))
    for domain, keys in sorted(domains.items()):
        parts = {label: arm.part(keys) for label, arm in arms.items()}
        parts = in_turn(workspace, parts, keys[:few])
        for label, arm in parts.items():
            named = described(arm, label, workspace.model)
            rows.append(
                {"domain": domain, **named, **against(arm, parts["Saber"], workspace.model)}
            )
    return Measured(len(arms["Saber"].keys), rows, {"radius": radius, "domains": sorted(domains)})


def present(result: Mapping[str, Any]) -> Presented:
    rows, paper = result["rows"], result["paper"]
    domains = result["settings"]["domains"]
    table = Table(
        f"Saber and Archer (K={result['settings']['radius']}) by domain of "
        f"{result['settings']['task']}, n = {result['n']}",
        COLUMNS,
        [
            [
                row["domain"],
                row["n"],
                row["arm"],
                value(row, "base", (theirs := _published(paper, row))[0]),
                value(row, "seconds", theirs[1]),
                value(row, "speedup", theirs[2]),
                row["speedup_predicted"],
                row["base_p"],
            ]
            for row in rows
        ]
        + [_mean(label, rows, len(domains)) for label in ("Saber", "Archer")],
        [
            "Domains of pocket are families of short Python problems. They are not other subjects: "
            "the paper's MATH-500, FinQA and PubMedQA need those tasks and a larger model.",
            "The mean row averages scores and speedups over domains. p: exact McNemar against Saber.",
        ],
    )
    figure = bars(
        [
            series(label, domains, [row for row in rows if row["arm"] == label], "base")
            for label in ("Saber", "Archer")
        ],
        Labels("Score by domain", "domain", "score (%)"),
    )
    return Presented([table], {"domains": figure})


def _published(paper: Mapping[str, Any], row: Mapping[str, Any]) -> Any:
    return paper.get(row["domain"], {}).get(row["arm"], NOTHING)


def _mean(label: str, rows: list[dict[str, Any]], domains: int) -> list[Any]:
    own = [row for row in rows if row["arm"] == label]
    averages = [mean([row[name] for row in own]) for name in ("base", "seconds", "speedup")]
    return [f"mean of {domains}", sum(row["n"] for row in own), label, *averages, None, None]


STUDY = Study(
    name="cross-domain",
    title="Domains",
    paper=PAPER,
    measure=measure,
    present=present,
)
