"""The paper's bounds made measurable on the loaded model.

Each table names the paper's equation by its label. All constants are local estimates: of this model, at
the states that its runs visit. None is a certificate.

- Error: theory-radius-bound, |z* - z^| <= Gamma sqrt(D), with Gamma estimated in two ways.
- Layers: app-staleness, the change of each layer's prompt keys and values since the anchor.
- Margin: theory-margin and theory-decision, Saber's margin in closed form against the measured error.
- Runs: the corollary on trajectories. Saber remembers confidences, which follow the logits however small
  the error is, so that the same action does not yet make the same state: checked here, not proved.
- Feedback: app-jacobians, the term that holding the prompt removes, along a confident token.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from archer.report.figures import Figure, Labels, Series, lines
from archer.report.tables import Table
from archer.runs.statistics import wilson
from archer.studies import bounds
from archer.studies.clusters import average, clustered_interval
from archer.studies.feedback_term import feedback_term
from archer.studies.lab import Arm, Lab
from archer.studies.study import Measured, Presented, Row, Study
from archer.studies.theory_tables import tables

RADIUS = 15
BINS = ((1, 3), (4, 7), (8, 11), (12, 14))
CONFIDENCE = 0.9
EVENTS = 16
"""Problems whose feedback term is computed at most."""
PAPER = {"where": "Theoretical Analysis and the appendix's Formal Analysis; no numbers are given."}


def measure(lab: Lab) -> Measured:
    arm, eager = lab.arm("archer", radius=RADIUS), lab.arm("saber")
    request = lab.request("archer", radius=RADIUS)
    prompts = lab.prompts(request)
    seen = {key: bounds.observe(request, arm, key, prompt) for key, prompt in prompts.items()}
    calls = [row for rows in seen.values() for row in rows]
    constant = bounds.gamma(calls)
    bounding = constant["bounding"] or 0.0
    conditions = [
        bounds.condition("measured error", calls, lambda row: float(row["error"])),
        bounds.condition("Gamma sqrt(D)", calls, lambda row: bounding * math.sqrt(row["distance"])),
    ]
    problems = [_run(arm, eager, key, rows) for key, rows in seen.items()]
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
    settings = {
        "radius": RADIUS,
        "confidence": CONFIDENCE,
        "problems": len(problems),
        "asked_for_events": len(chosen),
    }
    return Measured(len(calls), rows, settings)


def _run(arm: Arm, eager: Arm, key: str, rows: Sequence[Row]) -> Row:
    """Whether the condition held all along, and whether the run came out as the eager one."""
    records = [each.run.recorded.samples[key] for each in (arm, eager)]
    same = all(records[0][name] == records[1][name] for name in ("tokens", "updates"))
    return {
        "part": "run",
        "problem": key,
        "cached_calls": len(rows),
        "held": sum(row["error"] < row["margin"] for row in rows),
        "kept": sum(row["kept"] for row in rows),
        "identical": same,
    }


def runs(problems: Sequence[Row]) -> list[Row]:
    """Runs by what held at all of their cached calls."""
    groups = {
        "margin condition at every cached call": [
            row for row in problems if row["held"] == row["cached_calls"]
        ],
        "same action at every cached call": [
            row for row in problems if row["kept"] == row["cached_calls"]
        ],
        "all": list(problems),
    }
    summaries = []
    for name, members in groups.items():
        same = sum(row["identical"] for row in members)
        low, high = wilson(same, len(members))
        summaries.append(
            {
                "part": "runs",
                "runs": name,
                "n": len(members),
                "identical": same,
                "share": 100.0 * same / len(members) if members else None,
                "share_interval": [100.0 * low, 100.0 * high] if members else None,
            }
        )
    return summaries


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
