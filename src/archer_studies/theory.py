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

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from archer.pages.figures import Figure, Labels, Series, lines
from archer.pages.tables import Table
from archer.runs.statistics import wilson
from archer.runs.workspace import Workspace
from archer_studies import bounds
from archer_studies.clusters import average, clustered_interval
from archer_studies.feedback_term import feedback_term
from archer_studies.shadow_passes import divergence, walk
from archer_studies.study import Measured, Presented, Row, Study
from archer_studies.theory_tables import tables

RADIUS = 15
BINS = ((1, 3), (4, 7), (8, 11), (12, 14))
CONFIDENCE = 0.9
EVENTS = 16
"""Problems whose feedback term is computed at most."""
PAPER = {"where": "Theoretical Analysis and the appendix's Formal Analysis; no numbers are given."}


def measure(workspace: Workspace) -> Measured:
    few = workspace.scale.probed
    arm = workspace.arm("archer", problems=few, radius=RADIUS)
    request, eager = (
        workspace.request("archer", problems=few, radius=RADIUS),
        workspace.request("saber"),
    )
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
    made: list[Table] = tables(result)
    bins = [row for row in result["rows"] if row["part"] == "error" and row["n"]]
    return Presented(made, {"error": _figure(bins)} if bins else {})


def _figure(bins: Sequence[Row]) -> Figure:
    known = all(row["error_interval"] for row in bins)
    names = [row["bin"] for row in bins]
    low, high = ([row["error_interval"][end] for row in bins] if known else () for end in (0, 1))
    return lines(
        [
            Series("mean", names, [row["error"] for row in bins], low, high),
            Series("largest", names, [row["largest"] for row in bins]),
        ],
        Labels("Logit error of the cached prompt", "distance to the anchor", "largest logit error"),
    )


STUDY = Study(
    name="theory",
    title="The bounds, measured",
    paper=PAPER,
    measure=measure,
    present=present,
)
