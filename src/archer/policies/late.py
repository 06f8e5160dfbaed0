"""Refresh later at first and earlier towards the end: a radius that shrinks with the masks that are left.

Axes: B rows, L columns.  The first decisions of a rollback decoder are sure ones and hardly move; the
uncertain tokens come last, when little room is left to correct them.  There a stale prompt changes decisions.
"""

from __future__ import annotations

import numpy as np
from pydantic.dataclasses import dataclass

from archer.passes.bounds import Multiple
from archer.passes.canvas import Canvas, Flags, Scope
from archer.passes.memory import Memory
from archer.policies.base import Policy
from archer.policies.prompt_cache import prompt_kept


@dataclass(frozen=True)
class Late(Policy):
    """Refresh the prompt when the response has moved `share` x masks left tokens from the anchor.

    Where a prompt cache is exact the share has no effect: the distance is 0.
    """

    answers = Scope.RESPONSE
    rebuilds = True
    block_causal = True

    share: Multiple = 0.5
    """The radius as a share of the masks that are left; at least 1 token, so 0 is eager decoding."""

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        radius = np.maximum(1.0, self.share * canvas.masked_in(canvas.tokens).sum(axis=1))
        return prompt_kept(canvas, memory, memory.distance(canvas) >= radius)
