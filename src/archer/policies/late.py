"""Refresh later at first and earlier towards the end: a radius that shrinks with the masks that are left.

Axes: B rows, L columns.  The first decisions of a rollback decoder are sure ones and hardly move; the
uncertain tokens come last, when little room is left to correct them.  There a stale prompt changes decisions.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from archer.engine.arrays import Flags
from archer.engine.canvas import Canvas, Scope
from archer.engine.memory import Memory
from archer.policies.base import Policy


@dataclass(frozen=True)
class Late(Policy):
    """Refresh the prompt when the response has moved `share` x masks left tokens from the anchor."""

    answers = Scope.RESPONSE
    rebuilds = True

    share: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.5
    """The radius as a share of the masks that are left; at least 1 token, so 0 is eager decoding."""

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        radius = np.maximum(1.0, self.share * memory.masks_left(canvas))
        refresh: Flags = (memory.distance(canvas) >= radius) | ~memory.anchored
        return canvas.revisable() | refresh[:, None]
