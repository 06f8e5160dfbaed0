"""Saber and Archer by domain: families of pocket's programs; any other task is one domain of its own."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from archer.pages.figures import Labels, bars
from archer.pages.page import Presented
from archer.pages.tables import Field, p_value, series, table_of
from archer.runs.statistics import mean
from archer.runs.workspace import Workspace
from archer.tasks.base import Sample
from archer_studies.arms import compared, in_turn
from archer_studies.study import Measured, Row

TITLE = "Domains"
ABOUT = "Saber and Archer on each kind of problem"
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
FIELDS = (
    Field("domain"),
    Field("n"),
    Field("arm", "method"),
    Field("base", "score (%)", 1, paper=0),
    Field("seconds", digits=3, paper=1),
    Field("speedup", paper=2),
    Field("speedup_predicted", "predicted"),
    p_value("base_p"),
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
            row = compared(arm, label, parts["Saber"], workspace.model)
            rows.append({"domain": domain, **row})
    return Measured(len(arms["Saber"].keys), rows, {"radius": radius, "domains": sorted(domains)})


def present(result: Mapping[str, Any]) -> Presented:
    rows, paper = result["rows"], result["paper"]
    domains = result["settings"]["domains"]
    table = table_of(
        f"Saber and Archer (K={result['settings']['radius']}) by domain of "
        f"{result['settings']['task']}, n = {result['n']}",
        FIELDS,
        [*rows, *(_mean(label, rows, len(domains)) for label in ("Saber", "Archer"))],
        [
            "Domains of pocket are families of short Python problems. They are not other subjects: "
            "the paper's MATH-500, FinQA and PubMedQA need those tasks and a larger model.",
            "The mean row averages scores and speedups over domains. p: exact McNemar against Saber.",
        ],
        lambda row: paper.get(row["domain"], {}).get(row["arm"], ()),
    )
    figure = bars(
        [
            series(label, domains, [row for row in rows if row["arm"] == label], "base")
            for label in ("Saber", "Archer")
        ],
        Labels("Score by domain", "domain", "score (%)"),
    )
    return Presented([table], {"domains": figure})


def _mean(label: str, rows: list[Row], domains: int) -> Row:
    own = [row for row in rows if row["arm"] == label]
    averages = {name: mean([row[name] for row in own]) for name in ("base", "seconds", "speedup")}
    return {
        "domain": f"mean of {domains}",
        "n": sum(row["n"] for row in own),
        "arm": label,
        **averages,
    }
