"""Cached calls beside fresh ones at the same state: logit error, stale prompts, and Saber's margin.

Axes: layers, P prompt columns, G response columns, KV heads, D head size.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from archer.decoders.base import Decision
from archer.decoders.saber import Saber, SaberState
from archer.errors import BadRequest
from archer.passes.canvas import Flags, Reals
from archer.passes.logits import Logits
from archer.passes.reduction import to_host
from archer.results.step import Kind, Step
from archer.runs.manifest import RunRequest
from archer.runs.workspace import Arm
from archer_studies.probes.intervals import average, by_problem, clustered_interval, means
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


STEEPEST = 300.0
"""Log-odds are cut off here, far behind what float64 tells from certainty and before exp overflows."""


def saber_margin(saber: Saber, state: SaberState, logits: Logits, decision: Decision) -> float:
    """The margin in closed form of the one row's decision, which `saber` made from these logits.

    The paper's margin (its equation theory-margin) is the smallest largest-norm change of the logits that
    changes the action. A change of at most e moves the log-odds of a column's likeliest token by at most 2 e,
    each column by itself, and Saber's bar is history, so the action changes at the first of these events:

    - an accepted column's token is overtaken: half its lead over the next token;
    - a mask rises above the bar, or an accepted one falls to it: half the distance in log-odds;
    - among the n surest a mask overtakes a member: a quarter, because both move;
    - a token that stays loses more confidence than one that is taken back: the root of
      s(a - 2e) - p = s(b + 2e) - q, s the logistic function, which is a quadratic in exp(2e).

    It is a lower bound that is met unless a falling column's likeliest token changes on the way, which only a
    placed token's can. It is of the action, not of the confidences that Saber remembers. For the released
    rule alone: greedy, argmax watched, float64.
    """
    if saber.watch != "argmax" or saber.temperature != 0 or saber.precision != "float64":
        raise BadRequest(
            "The margin is derived for Saber's greedy rule on the likeliest token in float64. "
            "Leave watch, temperature and precision at their defaults."
        )
    odds = log_odds(logits)
    return min(
        _token_margin(logits, decision.accepted[0]),
        _accept_margin(saber, state, odds, decision),
        _remask_margin(state, odds, decision),
    )


def log_odds(logits: Logits) -> Reals:
    """[G]: log of p / (1 - p) of each column's best token; 0 where nothing is known."""
    row, peaks = logits.rows[0], logits.peaks[0]
    best, top, rest = to_host(peaks.best.double(), peaks.top.double(), peaks.rest.double())
    others = np.where(best >= top, rest, 1.0 + rest - np.exp(best - top))
    odds = np.zeros(logits.answers)
    with np.errstate(divide="ignore"):
        steep = best - top - np.log(others)
    odds[list(row.places)] = steep.clip(-STEEPEST, STEEPEST)
    return odds


def _token_margin(logits: Logits, accepted: Flags) -> float:
    """Half the smallest lead of an accepted token."""
    row, peaks = logits.rows[0], logits.peaks[0]
    rivals = row.values.double().clone()
    rivals[:, logits.mask] = -torch.inf
    second = rivals.scatter(1, peaks.tokens[:, None], -torch.inf).max(dim=1).values
    lead = np.full(logits.answers, np.inf)
    (lead[list(row.places)],) = to_host(peaks.best - second)
    return _least(lead[accepted]) / 2


def _accept_margin(saber: Saber, state: SaberState, odds: Reals, decision: Decision) -> float:
    """The bar is compared in log-odds; without history it is 1, which nothing reaches."""
    accepted = decision.accepted[0]
    eligible = state.masked[0] & _read(saber, state)
    threshold = float(decision.threshold[0])
    bar = float(torch.logit(torch.tensor(threshold, dtype=torch.float64)))
    above = int((eligible & (decision.confidence[0] > threshold)).sum())
    weakest, surest = _least(odds[accepted]), -_least(-odds[eligible & ~accepted])
    margins = [math.inf]
    if above >= saber.n:
        margins.append((bar - surest) / 2)
    if above > saber.n:
        margins.append((weakest - bar) / 2)
    else:
        margins.append((weakest - surest) / 4)
    return max(0.0, min(margins))


def _read(saber: Saber, state: SaberState) -> Flags:
    """[G]: the columns that the rule looks at."""
    canvas = saber.canvas(state)
    return canvas.reads[0, canvas.response]


def _remask_margin(state: SaberState, odds: Reals, decision: Decision) -> float:
    """The first pair of a token that stays and one that goes whose order turns."""
    placed = ~state.masked[0] | decision.accepted[0]
    looked = placed & ~np.isnan(state.previous[0])
    goes, stays = looked & decision.remasked[0], looked & ~decision.remasked[0]
    before = state.previous[0]
    turned = turning(
        odds[stays][None, :], before[stays][None, :], odds[goes][:, None], before[goes][:, None]
    )
    return _least(turned.flatten())


def turning(falls: Reals, falls_from: Reals, rises: Reals, rises_from: Reals) -> Reals:
    """The e at which s(falls - 2e) - falls_from equals s(rises + 2e) - rises_from, at least 0; broadcasts.

    With k = falls_from - rises_from, h = cosh((falls + rises) / 2) and
    y = exp(2e - (falls - rises) / 2) it is (1 + k) y^2 + 2 k h y - (1 - k) = 0.
    """
    k = falls_from - rises_from
    h = np.cosh((falls + rises) / 2)
    root = np.sqrt(k * k * h * h + 1 - k * k)
    with np.errstate(divide="ignore", invalid="ignore"):  # both forms of y are worked out
        y = np.where(k > 0, (1 - k) / (root + k * h), (root - k * h) / (1 + k))
        return np.maximum((falls - rises) / 4 + np.log(y) / 2, 0.0)


def _least(values: Reals) -> float:
    """The minimum; inf of nothing."""
    return float(values.min(initial=np.inf))
