"""The tables of the study `theory`, from its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archer.pages.tables import Column, Table
from archer_studies.clusters import cell
from archer_studies.study import Row

INTERVALS = "Intervals: bootstrap over problems."
TERMS = {
    "fresh": "norm of J_fresh v",
    "anchored": "norm of J_anchor v",
    "feedback": "norm of (J_fresh - J_anchor) v",
    "share": "the last over the first",
    "own": "change of the token's own log-probability by the last",
}


def tables(result: Mapping[str, Any]) -> list[Table]:
    """All of them."""
    parts: dict[str, list[Row]] = {}
    for row in result["rows"]:
        parts.setdefault(row["part"], []).append(row)
    calls = f"n = {result['n']} cached calls of {result['settings']['problems']} problems"
    return [
        _errors(f"{calls}, K = {result['settings']['radius']}", parts["error"]),
        _gamma(parts["gamma"]),
        _layers(calls, parts.get("layer", [])),
        _conditions(calls, parts["condition"]),
        _runs(parts["runs"]),
        _terms(result["settings"], parts["term"]),
    ]


def _errors(calls: str, rows: Sequence[Row]) -> Table:
    return Table(
        f"Logit error of cached against fresh at the same state: {calls}",
        [
            Column("distance D"),
            Column("calls"),
            Column("mean error", 3),
            Column("largest", 3),
            Column("mean error / sqrt(D)", 3),
        ],
        [
            [row["bin"], row["n"], cell(row, "error"), row["largest"], cell(row, "ratio")]
            for row in rows
        ],
        [f"Paper: theory-radius-bound. Error: the largest difference of any logit. {INTERVALS}"],
    )


def _gamma(rows: Sequence[Row]) -> Table:
    return Table(
        "Local estimates of Gamma",
        [
            Column("calls"),
            Column("least squares", 3),
            Column("largest error / sqrt(D)", 3),
            Column("growth exponent", 3),
        ],
        [[row["n"], cell(row, "slope"), row["bounding"], cell(row, "exponent")] for row in rows],
        [
            "Estimates at visited states, not bounds: the largest ratio is the least Gamma that no call "
            "contradicts. Exponent: slope of log error over log D; 0.5 is the shape of the bound, more "
            f"means that error / sqrt(D) grows with D. {INTERVALS}"
        ],
    )


def _layers(calls: str, rows: Sequence[Row]) -> Table:
    return Table(
        f"Staleness of the prompt by layer: {calls}",
        [
            Column("layer"),
            Column("calls"),
            Column("staleness", 3),
            Column("of the norm (%)", 2),
            Column("over sqrt(D)", 3),
        ],
        [
            [row["layer"], row["n"], cell(row, "stale"), cell(row, "relative"), cell(row, "slope")]
            for row in rows
        ],
        [
            "Paper: app-staleness, norm of the change of keys plus that of values since the anchor. The "
            "first layer's depend on no response. Over sqrt(D): least squares, a local estimate of "
            f"kappa B. {INTERVALS}"
        ],
    )


def _conditions(calls: str, rows: Sequence[Row]) -> Table:
    return Table(
        f"Saber's decision margin: {calls}",
        [
            Column("bound on the error"),
            Column("calls"),
            Column("its median", 3),
            Column("median margin", 3),
            Column("condition held (%)", 1),
            Column("action kept (%)", 1),
            Column("calls without it"),
            Column("kept without it (%)", 1),
            Column("changed with it"),
        ],
        [
            [
                row["condition"],
                row["n"],
                row["bound"],
                row["margin"],
                cell(row, "held"),
                cell(row, "kept"),
                row["without"],
                cell(row, "kept_without"),
                row["broken"],
            ]
            for row in rows
        ],
        [
            "Paper: theory-margin, theory-decision. The margin is of the fresh logits in the largest norm; "
            "in log-odds, which move twice as far, it is twice as wide. Gamma: the largest ratio above.",
            "The condition, a bound below the margin, is sufficient: no action may change with it. "
            f"{INTERVALS}",
        ],
    )


def _runs(rows: Sequence[Row]) -> Table:
    return Table(
        "Runs beside the eager ones",
        [
            Column("runs"),
            Column("n"),
            Column("identical"),
            Column("share (%)", 1),
            Column("condition fails at update", 1),
            Column("runs part at update", 1),
            Column("parted before it failed"),
        ],
        [
            [
                row["runs"],
                row["n"],
                row["identical"],
                cell(row, "share"),
                row["condition_until"],
                row["identical_until"],
                row["early"],
            ]
            for row in rows
        ],
        [
            "Identical: the same response as eager Saber's after every update. Updates: means over the runs "
            "in which it happened. Condition: measured error below the margin.",
            "The paper's corollary passes over what Saber remembers: confidences differ by the error even "
            "where actions do not, so that one step's condition does not carry to the next by itself. The "
            "last column counts the runs in which that mattered.",
        ],
    )


def _terms(settings: Mapping[str, Any], rows: Sequence[Row]) -> Table:
    return Table(
        f"The withheld feedback, n = {rows[0]['n']} events",
        [Column("measure"), Column("events"), Column("mean", 4), Column("above 0")],
        [[TERMS[row["measure"]], row["n"], cell(row, "mean"), row["positive"]] for row in rows],
        [
            "Paper: app-jacobians. v: from the mask's embedding to that of the first token accepted with "
            f"confidence of at least {settings['confidence']} and kept; derivatives at the state after it, "
            f"by forward mode, prompt held at that state. Problems looked at: "
            f"{settings['asked_for_events']}.",
            f"Linear in a direction that decoding jumps along: local. {INTERVALS}",
        ],
    )
