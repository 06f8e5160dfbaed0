"""The feedback that a held prompt withholds: the term J_fresh - J_anchor along a confident token."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from archer.runs.manifest import RunRequest
from archer_studies.branches import find_event
from archer_studies.relaxed import Derivatives, along
from archer_studies.shadow_passes import walk
from archer_studies.study import Row


def feedback_term(
    request: RunRequest, key: str, prompt: Sequence[int], confidence: float
) -> Row | None:
    """At the state after a problem's first confident token; None for a problem without one."""
    event = find_event(walk(request, prompt), confidence)
    if event is None:
        return None
    state = event.state
    tokens = torch.from_numpy(state.tokens[0]).to(request.model.network.device)
    found = along(request.model, tokens, len(prompt), event.position, event.token)
    fresh, anchored = float(found.fresh.norm()), float(found.anchored.norm())
    return {
        "part": "event",
        "problem": key,
        "fresh": fresh,
        "anchored": anchored,
        "feedback": float(found.feedback.norm()),
        "share": float(found.feedback.norm()) / fresh if fresh > 0 else None,
        "own": _own(found, event.position, event.token),
    }


def _own(found: Derivatives, position: int, token: int) -> float:
    """What the term adds to the log-probability of the token itself: above 0 it confirms itself."""
    term, odds = found.feedback[position].double(), found.logits[position].double()
    return float(term[token] - (odds.softmax(dim=0) * term).sum())
