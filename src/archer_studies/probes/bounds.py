"""Cached calls beside fresh ones at the same state: logit error, stale prompts, and Saber's margin.

Axes: layers, P prompt columns, KV heads, D head size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from torch import Tensor

from archer.decoders.saber import Saber
from archer.results.step import Kind, Step
from archer.runs.manifest import RunRequest
from archer.runs.workspace import Arm
from archer_studies.probes.intervals import average, by_problem, clustered_interval, means
from archer_studies.probes.margin import saber_margin
from archer_studies.probes.shadow_passes import (
    logit_error,
    require_unchanged,
    same_action,
    shadow,
    walk,
)
from archer_studies.study import Row

Rows = Sequence[Mapping[str, Any]]


def observe(request: RunRequest, arm: Arm, key: str, prompt: Sequence[int]) -> list[Row]:
    """Every cached call of a problem with the full pass it stands for."""
    stream = walk(request, prompt)
    method, model = stream.request.method, request.model
    saber = method.decoder
    assert isinstance(saber, Saber)
    rows: list[Row] = []
    for step in stream:
        if step.calls[0].kind is not Kind.CACHED:
            continue
        fresh = shadow(model, method, step)
        absolute, relative = staleness(step, fresh)
        rows.append(
            {
                "problem": key,
                "update": step.after.updates[0],
                "distance": step.calls[0].distance,
                "error": logit_error(step.logits, fresh.logits),
                "margin": saber_margin(saber, fresh.before, fresh.logits, fresh.decision),
                "kept": same_action(step.decision, fresh.decision),
                "stale": absolute,
                "relative": relative,
            }
        )
    require_unchanged(arm, key, stream.finish()[0])
    return rows


def staleness(step: Step[Any], fresh: Step[Any]) -> tuple[list[float], list[float]]:
    """Per layer: norm of the change of the prompt's keys plus that of its values; the same as a share."""
    prompt = slice(0, step.canvas.response.start)

    def norms(of: Callable[[Tensor, Tensor], Tensor]) -> list[float]:
        pairs = (
            (step.memory.store.keys, fresh.memory.store.keys),
            (step.memory.store.values, fresh.memory.store.values),
        )
        parts = [
            of(kept[:, step.memory.slots[0]], new[:, 0])[:, :, prompt]
            .double()
            .flatten(1)
            .norm(dim=1)
            for kept, new in pairs
        ]
        return [float(value) for value in parts[0] + parts[1]]

    absolute = norms(lambda kept, new: kept - new)
    size = norms(lambda kept, new: new)
    return absolute, [part / whole for part, whole in zip(absolute, size, strict=True)]


def error_bins(rows: Rows, bins: Sequence[tuple[int, int]]) -> list[Row]:
    """The logit error by distance."""
    summaries = []
    for low, high in bins:
        inside = [row for row in rows if low <= row["distance"] <= high]
        summaries.append(
            {
                "part": "error",
                "bin": f"{low}-{high}",
                "n": len(inside),
                **means(inside, {"error": 1.0}),
                "largest": max((row["error"] for row in inside), default=None),
                **_with_interval("ratio", inside, lambda some: average(_ratios(some))),
            }
        )
    return summaries


def gamma(rows: Rows) -> Row:
    """Local estimates of the constant: by least squares, the least that bounds all, and the growth."""
    return {
        "part": "gamma",
        "n": len(rows),
        **_with_interval("slope", rows, lambda some: slope(some, "error")),
        "bounding": max(_ratios(rows), default=None),
        **_with_interval("exponent", rows, exponent),
    }


def slope(rows: Rows, name: str) -> float | None:
    """Least squares through the origin over the root of the distance."""
    weight = math.fsum(row["distance"] for row in rows)
    if weight == 0:
        return None
    return math.fsum(row[name] * math.sqrt(row["distance"]) for row in rows) / weight


def exponent(rows: Rows) -> float | None:
    """Slope of log error over log distance; the bound's own shape has 0.5."""
    points = [
        (math.log(row["distance"]), math.log(row["error"]))
        for row in rows
        if row["distance"] > 0 and row["error"] > 0
    ]
    if not points:
        return None
    middle = math.fsum(x for x, _ in points) / len(points)
    spread = math.fsum((x - middle) ** 2 for x, _ in points)
    return math.fsum((x - middle) * y for x, y in points) / spread if spread > 0 else None


def layers(rows: Rows) -> list[Row]:
    """The staleness of each layer's prompt."""
    count = len(rows[0]["stale"]) if rows else 0
    summaries = []
    for layer in range(count):
        each = [
            {
                "problem": row["problem"],
                "distance": row["distance"],
                "stale": row["stale"][layer],
                "relative": 100.0 * row["relative"][layer],
            }
            for row in rows
        ]
        summaries.append(
            {
                "part": "layer",
                "layer": layer,
                "n": len(each),
                **means(each, {"stale": 1.0, "relative": 1.0}),
                **_with_interval("slope", each, lambda some: slope(some, "stale")),
            }
        )
    return summaries


def condition(name: str, rows: Rows, bound: Callable[[Mapping[str, Any]], float]) -> Row:
    """How often a bound on the error lay below the margin, and what happened where it did not."""
    judged = [
        {"problem": row["problem"], "kept": row["kept"], "held": bound(row) < row["margin"]}
        for row in rows
    ]
    without = [{**row, "kept_without": row["kept"]} for row in judged if not row["held"]]
    return {
        "part": "condition",
        "condition": name,
        "n": len(judged),
        "bound": median(map(bound, rows)) if rows else None,
        "margin": median(row["margin"] for row in rows) if rows else None,
        **means(judged, {"held": 100.0, "kept": 100.0}),
        "without": len(without),
        **means(without, {"kept_without": 100.0}),
        "broken": sum(row["held"] and not row["kept"] for row in judged),
    }


def _ratios(rows: Rows) -> list[float]:
    return [row["error"] / math.sqrt(row["distance"]) for row in rows if row["distance"] > 0]


def _with_interval(name: str, rows: Rows, statistic: Callable[[Rows], float | None]) -> Row:
    groups = by_problem(rows)
    return {name: statistic(rows), f"{name}_interval": clustered_interval(groups, statistic)}
