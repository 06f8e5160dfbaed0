"""Calls of a run beside what a pass of the other kind would have decided: is the cached prompt still good?

Beside a cached call the same update is made from a full pass, in a memory of its own, and thrown away.  The
run does not notice: that is checked on every problem.  Controls are full calls made once more from the cache
at the anchor itself (D = 0), where nothing may differ.

Axes: G response columns, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from archer.passes.canvas import Ints
from archer.results.step import Kind, Step
from archer.runs.manifest import RunRequest
from archer.runs.workspace import Arm
from archer_studies.probes.shadow_passes import (
    at_anchor,
    logit_error,
    require_unchanged,
    same_action,
    shadow,
    walk,
)
from archer_studies.study import Row


def probe(
    request: RunRequest, arm: Arm, key: str, prompt: Sequence[int], stride: int = 1
) -> list[Row]:
    """Every `stride`-th cached call of a problem, and every `stride`-th full call as a control.

    A cached call has the distance from its anchor in tokens, its age in updates, its surprise in nats, and
    when it was made, as a share of the run.
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
