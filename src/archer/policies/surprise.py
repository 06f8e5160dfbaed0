"""Refresh when the response says what the prompt's cache did not foresee.

Axes: B rows, L columns.  A token that the anchor's pass expected moves the prompt little; one that it did not
expect moves it much.  What is counted is information: nats under the anchor's own logits.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from archer.passes.canvas import Canvas, Flags, Scope
from archer.passes.foresight import kept_for
from archer.passes.memory import Memory
from archer.policies.base import Policy
from archer.policies.prompt_cache import prompt_kept

MOST_NATS = 6.0
"""Beyond it hundreds of tokens per column would have to be kept, and the prompt would never be refreshed."""


@dataclass(frozen=True)
class Surprise(Policy):
    """Refresh the prompt when the tokens placed since the anchor carry `nats` under the anchor's logits.

    Tokens that were taken back count nothing.  Where a prompt cache is exact the nats have no effect: a
    prompt that sees no response is never surprised.
    """

    answers = Scope.RESPONSE
    rebuilds = True
    block_causal = True

    nats: Annotated[float, Field(ge=0, le=MOST_NATS)] = 0.3
    """0 is eager decoding."""

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        return prompt_kept(
            canvas, memory, memory.surprisal(canvas, kept_for(self.nats)) >= self.nats
        )
