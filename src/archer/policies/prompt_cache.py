"""Policies that keep the prompt and recompute the whole response: eager, Archer, late and age.

Axes: B rows, L columns.  Nothing revisable is ever frozen here: every answer contains the response.
"""

import math
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, Field
from pydantic.dataclasses import dataclass

from archer.passes.bounds import Count, Multiple
from archer.passes.canvas import Canvas, Flags
from archer.passes.logits import Logits
from archer.passes.memory import Memory, Notes
from archer.policies.base import PromptCache, prompt_kept


def _whole(radius: float) -> float:
    if math.isfinite(radius) and radius != int(radius):
        raise ValueError("a radius counts tokens")
    return radius


@dataclass(frozen=True)
class Eager(PromptCache):
    """Recompute everything at every pass: no cache, Eq. (1)."""

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        return canvas.everything()


@dataclass(frozen=True)
class Archer(PromptCache):
    """Refresh the prompt when the response has moved `radius` tokens from the anchor, Eq. (5).

    Where a prompt cache is exact the radius has no effect: the distance is 0.
    """

    radius: Annotated[
        float, Field(ge=1, description="a whole number or inf"), AfterValidator(_whole)
    ] = 8
    """K: 1 is eager decoding, inf never refreshes."""

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        return prompt_kept(canvas, memory, memory.distance(canvas) >= self.radius)


@dataclass(frozen=True)
class Late(PromptCache):
    """Refresh the prompt when the response has moved `share` x masks left tokens from the anchor.

    Later at first and earlier towards the end: the first decisions of a rollback decoder are sure ones and
    hardly move; the uncertain tokens come last, when little room is left to correct them.
    """

    share: Multiple = 0.5
    """The radius as a share of the masks that are left; at least 1 token, so 0 is eager decoding."""

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        radius = np.maximum(1.0, self.share * canvas.masked_in(canvas.tokens).sum(axis=1))
        return prompt_kept(canvas, memory, memory.distance(canvas) >= radius)


@dataclass(frozen=True)
class Age(PromptCache):
    """Refresh the prompt at every `every`-th pass, however little the response has moved.

    Where a prompt cache is exact it never grows old.
    """

    counts_passes = True

    every: Count = 8
    """Passes that one prompt cache serves, the one that makes it included; 1 is eager decoding."""

    def start(self, canvas: Canvas) -> Notes:
        return {"age": np.zeros(canvas.rows, dtype=np.int64)}

    def noted(self, canvas: Canvas, memory: Memory, full: Flags, logits: Logits) -> Notes:
        return {"age": np.where(full, 0, memory.notes["age"] + 1)}

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        return prompt_kept(canvas, memory, memory.notes["age"] + 1 >= self.every)
