"""The paper's bounds made measurable on the loaded model.

Each table names the paper's equation by its label. All constants are local estimates: of this model, at
the states that its runs visit. None is a certificate.

- Error: theory-radius-bound, |z* - z^| <= Gamma sqrt(D), with Gamma estimated in two ways.
- Layers: app-staleness, the change of each layer's prompt keys and values since the anchor.
- Margin: theory-margin and theory-decision, Saber's margin in closed form against the measured error.
- Runs: the corollary on trajectories, up to the first call without the condition. Saber remembers
  confidences, which follow the logits however small the error is, so that the same action does not yet
  make the same state: checked here, not proved.
- Feedback: app-jacobians, the term that holding the prompt removes, along a confident token.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from archer.pages.figures import Figure, Labels, Series, lines
from archer.pages.page import Presented
from archer.pages.tables import Field, Table, series, table_of
from archer.runs.statistics import wilson
from archer.runs.workspace import Workspace
from archer_studies.probes import bounds
from archer_studies.probes.derivatives import feedback_term
from archer_studies.probes.intervals import average, clustered_interval
from archer_studies.probes.shadow_passes import divergence, walk
from archer_studies.study import Measured, Row

TITLE = "The bounds, measured"
ABOUT = "The paper's bounds on the error of a cached prompt, measured"
RADIUS = 15
BINS = ((1, 3), (4, 7), (8, 11), (12, 14))
CONFIDENCE = 0.9
EVENTS = 16
"""Problems whose feedback term is computed at most."""

TERMS = {
    "fresh": "norm of J_fresh v",
    "anchored": "norm of J_anchor v",
    "feedback": "norm of (J_fresh - J_anchor) v",
    "share": "the last over the first",
    "own": "change of the token's own log-probability by the last",
}


def measure(workspace: Workspace) -> Measured:
    few = workspace.scale.probed
    arm = workspace.arm("archer", problems=few, radius=RADIUS)
    request, eager = workspace.again(arm), workspace.request("saber")
    prompts = workspace.prompts(request)
    seen = {key: bounds.observe(request, arm, key, prompt) for key, prompt in prompts.items()}
    calls = [row for rows in seen.values() for row in rows]
    constant = bounds.gamma(calls)
    bounding = constant["bounding"] or 0.0
    conditions = [
        bounds.condition("measured error", calls, lambda row: float(row["error"])),
        bounds.condition("Gamma sqrt(D)", calls, lambda row: bounding * math.sqrt(row["distance"])),
    ]
    problems = [
        compared_run(key, seen[key], divergence(walk(request, prompt), walk(eager, prompt)))
        for key, prompt in prompts.items()
    ]
    chosen = list(prompts.items())[:EVENTS]
    terms = [feedback_term(request, key, prompt, CONFIDENCE) for key, prompt in chosen]
    events = [term for term in terms if term is not None]
    rows = [
        *bounds.error_bins(calls, BINS),
        constant,
        *bounds.layers(calls),
        *conditions,
        *runs(problems),
        *event_summary(events),
        *problems,
        *events,
    ]
    counts = {"problems": len(problems), "asked_for_events": len(chosen)}
    settings = {"radius": RADIUS, "confidence": CONFIDENCE, **counts}
    return Measured(len(calls), rows, settings)


def compared_run(key: str, rows: Sequence[Row], diverged_at: int | None) -> Row:
    """When a run left the eager one, and when the condition, or the action, first failed."""
    failed_at = next((row["update"] for row in rows if row["error"] >= row["margin"]), None)
    return {
        "part": "run",
        "problem": key,
        "cached_calls": len(rows),
        "failed_at": failed_at,
        "changed_at": next((row["update"] for row in rows if not row["kept"]), None),
        "diverged_at": diverged_at,
        "early": diverged_at is not None and (failed_at is None or diverged_at < failed_at),
    }


def runs(problems: Sequence[Row]) -> list[Row]:
    """Runs by what held at all of their cached calls."""
    groups = {
        "margin condition at every cached call": [
            row for row in problems if row["failed_at"] is None
        ],
        "same action at every cached call": [row for row in problems if row["changed_at"] is None],
        "all": list(problems),
    }
    summaries = []
    for name, members in groups.items():
        same = sum(row["diverged_at"] is None for row in members)
        low, high = wilson(same, len(members))
        summaries.append(
            {
                "part": "runs",
                "runs": name,
                "n": len(members),
                "identical": same,
                "share": 100.0 * same / len(members) if members else None,
                "share_interval": [100.0 * low, 100.0 * high] if members else None,
                "condition_until": _mean_of("failed_at", members),
                "identical_until": _mean_of("diverged_at", members),
                "early": sum(row["early"] for row in members),
            }
        )
    return summaries


def _mean_of(name: str, rows: Sequence[Row]) -> float | None:
    """Over the runs in which it happened."""
    return average([row[name] for row in rows if row[name] is not None])


def event_summary(events: Sequence[Row]) -> list[Row]:
    """Means over events; one event per problem."""
    summaries = []
    for name in ("fresh", "anchored", "feedback", "share", "own"):
        values = [row[name] for row in events if row[name] is not None]
        summaries.append(
            {
                "part": "term",
                "measure": name,
                "n": len(values),
                "mean": average(values),
                "mean_interval": clustered_interval([[value] for value in values], average),
                "positive": sum(value > 0 for value in values),
            }
        )
    return summaries


def present(result: Mapping[str, Any]) -> Presented:
    bins = [row for row in result["rows"] if row["part"] == "error" and row["n"]]
    return Presented(_tables(result), {"error": _figure(bins)} if bins else {})


def _figure(bins: Sequence[Row]) -> Figure:
    names = [row["bin"] for row in bins]
    return lines(
        [
            series("mean", names, bins, "error"),
            Series("largest", names, [row["largest"] for row in bins]),
        ],
        Labels("Logit error of the cached prompt", "distance to the anchor", "largest logit error"),
    )


def _tables(result: Mapping[str, Any]) -> list[Table]:
    parts: dict[str, list[Row]] = {}
    for row in result["rows"]:
        parts.setdefault(row["part"], []).append(row)
    settings = result["settings"]
    words = {
        **settings,
        "calls": f"n = {result['n']} cached calls of {settings['problems']} problems",
        "events": parts["term"][0]["n"],
    }
    return [
        table_of(
            title.format(**words),
            fields,
            parts.get(part, []),
            [note.format(**words) for note in notes],
        )
        for part, title, fields, notes in TABLES
    ]


INTERVALS = "Intervals: bootstrap over problems."
TABLES: tuple[tuple[str, str, tuple[Field, ...], tuple[str, ...]], ...] = (
    (
        "error",
        "Logit error of cached against fresh at the same state: {calls}, K = {radius}",
        (
            Field("bin", "distance D"),
            Field("n", "calls"),
            Field("error", "mean error", 3),
            Field("largest", digits=3),
            Field("ratio", "mean error / sqrt(D)", 3),
        ),
        (f"Paper: theory-radius-bound. Error: the largest difference of any logit. {INTERVALS}",),
    ),
    (
        "gamma",
        "Local estimates of Gamma",
        (
            Field("n", "calls"),
            Field("slope", "least squares", 3),
            Field("bounding", "largest error / sqrt(D)", 3),
            Field("exponent", "growth exponent", 3),
        ),
        (
            "Estimates at visited states, not bounds: the largest ratio is the least Gamma that no call "
            "contradicts. Exponent: slope of log error over log D; 0.5 is the shape of the bound, more "
            f"means that error / sqrt(D) grows with D. {INTERVALS}",
        ),
    ),
    (
        "layer",
        "Staleness of the prompt by layer: {calls}",
        (
            Field("layer"),
            Field("n", "calls"),
            Field("stale", "staleness", 3),
            Field("relative", "of the norm (%)"),
            Field("slope", "over sqrt(D)", 3),
        ),
        (
            "Paper: app-staleness, norm of the change of keys plus that of values since the anchor. The "
            "first layer's depend on no response. Over sqrt(D): least squares, a local estimate of "
            f"kappa B. {INTERVALS}",
        ),
    ),
    (
        "condition",
        "Saber's decision margin: {calls}",
        (
            Field("condition", "bound on the error"),
            Field("n", "calls"),
            Field("bound", "its median", 3),
            Field("margin", "median margin", 3),
            Field("held", "condition held (%)", 1),
            Field("kept", "action kept (%)", 1),
            Field("without", "calls without it"),
            Field("kept_without", "kept without it (%)", 1),
            Field("broken", "changed with it"),
        ),
        (
            "Paper: theory-margin, theory-decision. The margin is of the fresh logits in the largest norm; "
            "in log-odds, which move twice as far, it is twice as wide. Gamma: the largest ratio above.",
            "The condition, a bound below the margin, is sufficient: no action may change with it. "
            f"{INTERVALS}",
        ),
    ),
    (
        "runs",
        "Runs beside the eager ones",
        (
            Field("runs"),
            Field("n"),
            Field("identical"),
            Field("share", "share (%)", 1),
            Field("condition_until", "condition fails at update", 1),
            Field("identical_until", "runs part at update", 1),
            Field("early", "parted before it failed"),
        ),
        (
            "Identical: the same response as eager Saber's after every update. Updates: means over the runs "
            "in which it happened. Condition: measured error below the margin.",
            "The paper's corollary passes over what Saber remembers: confidences differ by the error even "
            "where actions do not, so that one step's condition does not carry to the next by itself. The "
            "last column counts the runs in which that mattered.",
        ),
    ),
    (
        "term",
        "The withheld feedback, n = {events} events",
        (
            Field("", "measure", of=lambda row: TERMS[row["measure"]]),
            Field("n", "events"),
            Field("mean", digits=4),
            Field("positive", "above 0"),
        ),
        (
            "Paper: app-jacobians. v: from the mask's embedding to that of the first token accepted with "
            "confidence of at least {confidence} and kept; derivatives at the state after it, "
            "by forward mode, prompt held at that state. Problems looked at: {asked_for_events}.",
            f"Linear in a direction that decoding jumps along: local. {INTERVALS}",
        ),
    ),
)
"""Part of the rows, title, columns and notes; what stands in braces comes from the result."""
