"""Is the cached prompt still good? What a full pass would have decided, by distance and by age."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archer.pages.fields import Field, series, table_of
from archer.pages.figures import Figure, Labels, lines
from archer.pages.output import Presented
from archer.pages.tables import Table
from archer.runs.workspace import Workspace
from archer_studies.probes.intervals import by_problem, correlations, means
from archer_studies.probes.validity import probe
from archer_studies.study import Measured, Row

TITLE = "Validity of the cached prompt"
ABOUT = "How often a full pass would have decided otherwise, by distance"
RADIUS = 15
"""The smallest radius with which a cached call can be 14 tokens away from its anchor."""
BINS = ((0, 3), (4, 7), (8, 11), (12, 14))
OUTCOMES = {"disagreement": 100.0, "moved": 1.0, "drift": 1.0}
"""What may differ, and the factor by which it is told."""
SIGNALS = (("distance", "age"), ("age", "distance"))
"""Each with the one that is held fixed."""


def measure(workspace: Workspace) -> Measured:
    arm = workspace.arm("archer", problems=workspace.scale.probed, radius=RADIUS)
    request = workspace.again(arm)
    observed = [
        row
        for key, prompt in workspace.prompts(request).items()
        for row in probe(request, arm, key, prompt, workspace.scale.stride)
    ]
    probes = [row for row in observed if row["part"] == "probe"]
    rows = [*binned(observed), *correlations(probes, SIGNALS, list(OUTCOMES)), *observed]
    settings = {"radius": RADIUS, "stride": workspace.scale.stride, "problems": len(arm.keys)}
    return Measured(len(probes), rows, settings)


def binned(observed: Sequence[Row]) -> list[Row]:
    """The control and each bin of distances: means with intervals, per cent for disagreement."""
    rows = [_summary("control", [row for row in observed if row["part"] == "control"])]
    for low, high in BINS:
        inside = [
            row for row in observed if row["part"] == "probe" and low <= row["distance"] <= high
        ]
        rows.append(_summary(f"{low}-{high}", inside))
    return rows


def _summary(name: str, rows: Sequence[Row]) -> Row:
    counts = {"n": len(rows), "problems": len(by_problem(rows))}
    return {"part": "bin", "bin": name, **counts, **means(rows, OUTCOMES)}


def present(result: Mapping[str, Any]) -> Presented:
    rows = result["rows"]
    bins = [row for row in rows if row["part"] == "bin"]
    tables = [
        _bins_table(result, bins),
        _correlations_table(result, [row for row in rows if row["part"] == "correlation"]),
    ]
    filled = [row for row in bins if row["bin"] != "control" and row["n"]]
    figures = {"distance": _figure(filled)} if filled else {}
    return Presented(tables, figures)


def _bins_table(result: Mapping[str, Any], bins: Sequence[Row]) -> Table:
    theirs, settings = result["paper"]["bins"], result["settings"]
    return table_of(
        f"Cached against fresh by distance, K = {settings['radius']}, n = {result['n']} probes",
        (
            Field(
                "",
                "distance D",
                of=lambda row: "0 (control)" if row["bin"] == "control" else row["bin"],
            ),
            Field("n", "probes"),
            Field("problems"),
            Field("disagreement", "other action (%)", 1, paper="disagreement"),
            Field("moved", "next-state distance", paper="moved"),
            Field("drift", "largest logit error", 3),
        ),
        bins,
        [
            f"One in {settings['stride']} cached calls of {settings['problems']} problems; completions, "
            "updates and passes are those of the run without probes, or the study fails.",
            "The control repeats full calls as cached calls at their own anchor: no action may differ; "
            "logits may by rounding.",
            "Intervals: bootstrap over problems. The paper's column is LLaDA-8B on MBPP.",
        ],
        lambda row: theirs.get(row["bin"], ()),
    )


def _correlations_table(result: Mapping[str, Any], rows: Sequence[Row]) -> Table:
    return table_of(
        f"Partial Spearman correlation of the refresh signals, n = {result['n']} probes",
        (
            Field("signal"),
            Field("given", "held fixed"),
            Field("disagreement", "other action", 3, paper="disagreement"),
            Field("moved", "next-state distance", 3, paper="moved"),
            Field("drift", "largest logit error", 3),
        ),
        rows,
        ["n/a where a variable is constant. Intervals: bootstrap over problems."],
        lambda row: result["paper"]["correlations"][row["signal"]],
    )


def _figure(bins: Sequence[Row]) -> Figure:
    line = series("other action", [row["bin"] for row in bins], bins, "disagreement")
    labels = Labels("Disagreement with a full pass", "distance to the anchor", "other action (%)")
    return lines([line], labels)
