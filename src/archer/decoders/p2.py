"""P2, path planning, as Open-dLLM released it: a rollback decoder on a fixed schedule.

Axes: B rows, G response columns.  Every column is scored at every update, also those with a token: by the
probability of what the model would write there now, which need not be the token that stands there.
"""

from __future__ import annotations

import numpy as np
from pydantic.dataclasses import dataclass

from archer.decoders.base import Decision, DecodeState, Rule, one_block, trailing
from archer.passes.bounds import Count
from archer.passes.canvas import Canvas, Ints, Scope
from archer.passes.logits import Logits


@dataclass(frozen=True)
class P2(Rule[DecodeState]):
    """Of all columns the least sure become masks, fewer at every update; the other masks are filled."""

    steps: Count | None = None
    """Updates at most; one per token when left out."""

    @property
    def reads(self) -> Scope:
        return Scope.RESPONSE

    def limit(self, length: int) -> int:
        return length if self.steps is None else self.steps

    def canvas(self, state: DecodeState) -> Canvas:
        return one_block(state, np.ones(state.response.shape, dtype=np.bool_))

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        best, _ = logits.read(self.sampled(state, logits))
        everywhere = np.ones(state.response.shape, dtype=np.bool_)
        unsure = trailing(best.confidence, everywhere, self._masks(state))
        accepted, remasked = state.masked & ~unsure, state.placed & unsure
        response = np.where(accepted, best.tokens, state.response)
        response = np.where(remasked, state.prompt.mask, response)
        return state.advanced(response), Decision.accepting(accepted, best, remasked=remasked)

    def _masks(self, state: DecodeState) -> Ints:
        """[B]: masks after this update; the released code multiplies in float32."""
        total = self.limit(state.length)
        shares = [np.float32(1 - (update + 1) / total) for update in state.updates]
        return np.array([int(np.floor(np.float32(state.length) * share)) for share in shares])
