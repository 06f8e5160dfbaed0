"""Is the cached prompt still good? What a full pass would have decided, by distance and by age."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from archer.pages.figures import Figure, Labels, lines
from archer.pages.page import Presented
from archer.pages.tables import Field, Table, series, table_of
from archer.passes.canvas import Ints
from archer.results.step import Kind, Step
from archer.runs.manifest import RunRequest
from archer.runs.workspace import Arm, Workspace
from archer_studies.probes.intervals import by_problem, correlations, means
from archer_studies.probes.shadow_passes import (
    at_anchor,
    logit_error,
    require_unchanged,
    same_action,
    shadow,
    walk,
)
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


def probe(
    request: RunRequest, arm: Arm, key: str, prompt: Sequence[int], stride: int = 1
) -> list[Row]:
    """Every `stride`-th cached call of a problem, and every `stride`-th full call as a control.

    Beside a cached call the update is made from a full pass and thrown away; controls are full calls made
    from the cache at the anchor (D = 0), where nothing may differ. That the run does not notice is checked.
    A call has its distance in tokens, age in updates, surprise in nats, and when, as a share of the run.
    """
    stream = walk(request, prompt)
    method, model = stream.request.method, request.model
    seen = dict.fromkeys(Kind, 0)
    rows: list[Row] = []
    age = 0
    anchor: Ints | None = None
    expected: Tensor | None = None
    for step in stream:
        call, now = step.calls[0], step.before.response[0]
        if call.kind is Kind.FULL:
            age, anchor, expected = 0, now, foreseen(step)
        elif call.kind is Kind.CACHED:
            age += 1
        seen[call.kind] += 1
        if (seen[call.kind] - 1) % stride:
            continue
        at: Row = {"problem": key, "update": step.before.updates[0] + 1}
        if call.kind is Kind.CACHED:
            assert anchor is not None
            assert expected is not None
            at |= {"distance": call.distance, "age": age}
            at["surprise"] = surprise(expected, anchor, now, step.before.prompt.mask)
            rows.append({"part": "probe", **at, **compared(step, shadow(model, method, step))})
        elif call.kind is Kind.FULL:
            at |= {"distance": 0, "age": 0, "surprise": 0.0}
            rows.append({"part": "control", **at, **compared(step, at_anchor(model, method, step))})
    (completion,) = stream.finish()
    require_unchanged(arm, key, completion)
    return [row | {"when": (row["update"] - 1) / completion.updates} for row in rows]


def compared(step: Step[Any], other: Step[Any]) -> Row:
    """How two updates from the same state differ."""
    return {
        "disagreement": not same_action(step.decision, other.decision),
        "moved": int((step.after.response != other.after.response).sum()),
        "drift": logit_error(step.logits, other.logits),
    }


def foreseen(step: Step[Any]) -> Tensor:
    """[G, V]: log-probabilities of a pass over the tokens that can be placed, in float64."""
    values = step.logits.rows[0].values.double().clone()
    values[:, step.before.prompt.mask] = -math.inf
    return torch.log_softmax(values, dim=1)


def surprise(expected: Tensor, anchor: Ints, now: Ints, mask: int) -> float:
    """Nats of the tokens that were placed since the anchor, under the anchor's own logits."""
    places = np.flatnonzero((now != anchor) & (now != mask))
    return float(-expected[places, now[places]].sum())
