"""Is the cached prompt still good? Shadow passes beside a run: what a full pass would have decided.

At every so many cached calls the same update is also made from a full pass, in a memory of its own, and
thrown away. The run does not notice: that is checked on every problem. Controls are cached calls at the
anchor itself (D = 0), where nothing may differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archer.pages.figures import Figure, Labels, Series, lines
from archer.pages.tables import Column, Table
from archer.results.step import Kind, Step
from archer.runs.manifest import RunRequest
from archer.runs.workspace import Arm, ArmRequest, Workspace
from archer_studies.clusters import by_problem, cell
from archer_studies.probed import correlations, means
from archer_studies.shadow_passes import (
    at_anchor,
    logit_error,
    require_unchanged,
    same_action,
    shadow,
    walk,
)
from archer_studies.study import Measured, Presented, Row, Study

RADIUS = 15
"""The smallest radius with which a cached call can be 14 tokens away from its anchor."""
BINS = ((0, 3), (4, 7), (8, 11), (12, 14))
OUTCOMES = {"disagreement": 100.0, "moved": 1.0, "drift": 1.0}
"""What may differ, and the factor by which it is told."""
SIGNALS = (("distance", "age"), ("age", "distance"))
"""Each with the one that is held fixed."""
PAPER = {
    "where": "Table 4, LLaDA-8B-Instruct on MBPP",
    "bins": {
        "0-3": {"n": 805, "disagreement": 19.88, "moved": 0.47},
        "4-7": {"n": 1566, "disagreement": 48.53, "moved": 1.26},
        "8-11": {"n": 1697, "disagreement": 56.45, "moved": 1.54},
        "12-14": {"n": 1054, "disagreement": 65.09, "moved": 1.90},
    },
    "correlations": {
        "distance": {"disagreement": 0.145, "moved": 0.145},
        "age": {"disagreement": 0.040, "moved": 0.045},
    },
}


def measure(workspace: Workspace) -> Measured:
    arm = workspace.arm("archer", problems=workspace.scale.probed, radius=RADIUS)
    request = workspace.request("archer", problems=workspace.scale.probed, radius=RADIUS)
    found: list[Row] = []
    for key, prompt in workspace.prompts(request).items():
        found += probe(request, arm, key, prompt, workspace.scale.stride)
    probes = [row for row in found if row["part"] == "probe"]
    rows = [*binned(found), *correlations(probes, SIGNALS, list(OUTCOMES)), *found]
    settings = {"radius": RADIUS, "stride": workspace.scale.stride, "problems": len(arm.keys)}
    return Measured(len(probes), rows, settings)


def probe(request: RunRequest, arm: Arm, key: str, prompt: Sequence[int], stride: int) -> list[Row]:
    """Every `stride`-th cached call of a problem, and every `stride`-th full call as a control."""
    stream = walk(request, prompt)
    method, model = stream.request.method, request.model
    seen = dict.fromkeys(Kind, 0)
    rows: list[Row] = []
    age = 0
    for step in stream:
        call = step.calls[0]
        seen[call.kind] += 1
        if call.kind is not Kind.REUSED:
            age = 0 if call.kind is Kind.FULL else age + 1
        if (seen[call.kind] - 1) % stride:
            continue
        at: Row = {"problem": key, "update": step.before.updates[0] + 1}
        if call.kind is Kind.CACHED:
            at |= {"distance": call.distance, "age": age}
            rows.append({"part": "probe", **at, **compared(step, shadow(model, method, step))})
        elif call.kind is Kind.FULL:
            at |= {"distance": 0, "age": 0}
            rows.append({"part": "control", **at, **compared(step, at_anchor(model, method, step))})
    require_unchanged(arm, key, stream.finish()[0])
    return rows


def compared(step: Step[Any], other: Step[Any]) -> Row:
    """How two updates from the same state differ."""
    return {
        "disagreement": not same_action(step.decision, other.decision),
        "moved": int((step.after.response != other.after.response).sum()),
        "drift": logit_error(step.logits, other.logits),
    }


def binned(found: Sequence[Row]) -> list[Row]:
    """The control and each bin of distances: means with intervals, per cent for disagreement."""
    rows = [_summary("control", [row for row in found if row["part"] == "control"])]
    for low, high in BINS:
        inside = [row for row in found if row["part"] == "probe" and low <= row["distance"] <= high]
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
    theirs = result["paper"]["bins"]
    cells = []
    for row in bins:
        paper = theirs.get(row["bin"], {})
        cells.append(
            [
                "0 (control)" if row["bin"] == "control" else row["bin"],
                row["n"],
                row["problems"],
                cell(row, "disagreement", paper.get("disagreement")),
                cell(row, "moved", paper.get("moved")),
                cell(row, "drift"),
            ]
        )
    settings = result["settings"]
    return Table(
        f"Cached against fresh by distance, K = {settings['radius']}, n = {result['n']} probes",
        [
            Column("distance D"),
            Column("probes"),
            Column("problems"),
            Column("other action (%)", 1),
            Column("next-state distance"),
            Column("largest logit error", 3),
        ],
        cells,
        [
            f"One in {settings['stride']} cached calls of {settings['problems']} problems; completions, "
            "updates and passes are those of the run without probes, or the study fails.",
            "The control repeats full calls as cached calls at their own anchor: no action may differ; "
            "logits may by rounding.",
            "Intervals: bootstrap over problems. The paper's column is LLaDA-8B on MBPP.",
        ],
    )


def _correlations_table(result: Mapping[str, Any], rows: Sequence[Row]) -> Table:
    theirs = result["paper"]["correlations"]
    return Table(
        f"Partial Spearman correlation of the refresh signals, n = {result['n']} probes",
        [
            Column("signal"),
            Column("held fixed"),
            Column("other action", 3),
            Column("next-state distance", 3),
            Column("largest logit error", 3),
        ],
        [
            [
                row["signal"],
                row["given"],
                *(cell(row, name, theirs[row["signal"]].get(name)) for name in OUTCOMES),
            ]
            for row in rows
        ],
        ["n/a where a variable is constant. Intervals: bootstrap over problems."],
    )


def _figure(bins: Sequence[Row]) -> Figure:
    known = all(row["disagreement_interval"] for row in bins)
    series = Series(
        "other action",
        [row["bin"] for row in bins],
        [row["disagreement"] for row in bins],
        [row["disagreement_interval"][0] for row in bins] if known else (),
        [row["disagreement_interval"][1] for row in bins] if known else (),
    )
    labels = Labels("Disagreement with a full pass", "distance to the anchor", "other action (%)")
    return lines([series], labels)


STUDY = Study(
    name="validity",
    title="Validity of the cached prompt",
    paper=PAPER,
    measure=measure,
    present=present,
    arms=lambda workspace: [
        ArmRequest("archer", {"radius": RADIUS}, problems=workspace.scale.probed)
    ],
)
