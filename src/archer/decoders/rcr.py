"""RCR, running confidence remasking: fill everything, then mask again what was filled with least confidence.

Axes: B rows, G response columns.

MDPO's rule, which needs no training.  It remembers how sure it was of each token when it wrote it, and never
looks at a placed token again: so it takes tokens back and reads masks alone.  Where the released code lets a
later block mask columns of an earlier one, a block here keeps to itself, as Tolerator's copy of it does.
"""

from __future__ import annotations

from dataclasses import dataclass as plain_dataclass
from typing import ClassVar

import numpy as np
from pydantic.dataclasses import dataclass

from archer.decoders.base import Decision, DecodeState, blank, grow, trailing
from archer.decoders.blocks import whole_block
from archer.decoders.scheduled import Scheduled, share_of
from archer.passes.canvas import Flags, Ints, Prompt, Reals
from archer.passes.logits import Logits


@plain_dataclass(frozen=True)
class RcrState(DecodeState):
    """A response, and how sure each of its tokens was when it was written."""

    filled_at: Reals
    """[B, G]: NaN where nothing is placed."""


@dataclass(frozen=True)
class Rcr(Scheduled):
    """After update s as many columns of a block are placed as the schedule has by then."""

    resizes: ClassVar[bool] = False

    def begin(self, prompt: Prompt, length: int) -> RcrState:
        base = blank(prompt, length)
        return grow(RcrState, base, filled_at=np.full(base.response.shape, np.nan))

    def settled(self, state: DecodeState) -> Flags:
        """Blocks that were left."""
        return (np.arange(state.length) < self._bounds(state)[0][:, None]) | state.done[:, None]

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        assert isinstance(state, RcrState)
        best, _ = logits.read(self.sampled(state, logits))
        accepted = self._eligible(state)
        filled_at = np.where(accepted, best.confidence, state.filled_at)
        low, high = (bound[:, None] for bound in self._bounds(state))
        columns = np.arange(state.length)
        remasked = trailing(filled_at, (columns >= low) & (columns < high), self._owed(state))
        written = np.where(accepted, best.tokens, state.response)
        after = state.advanced(
            np.where(remasked, state.prompt.mask, written),
            filled_at=np.where(remasked, np.nan, filled_at),
        )
        kept = accepted & ~remasked
        return after, Decision.accepting(kept, best, remasked=remasked & state.placed)

    def _owed(self, state: DecodeState) -> Ints:
        """[B]: masks of the block that are left after this update."""
        block = whole_block(self.block, state.length)
        each = self._updates_per_block(state.length)
        return np.array(
            [
                sum(share_of(block, each, later) for later in range(update % each + 1, each))
                for update in state.updates
            ]
        )
