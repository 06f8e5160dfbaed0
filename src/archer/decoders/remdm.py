"""ReMDM as used on LLaDA: fill most of the response, re-mask and refill for a while, fill the rest.

Axes: B rows, G response columns.  Deterministic: what an update does follows from its number alone.
"""

from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from archer.decoders.base import (
    Decision,
    DecodeState,
    Rule,
    finished,
    kept,
    leading,
    one_block,
    trailing,
)
from archer.decoders.scheduled import ended, ends_now
from archer.passes.bounds import Count, CountOrNone
from archer.passes.canvas import Canvas, Flags, Ints, Scope
from archer.passes.logits import Logits


@dataclass(frozen=True)
class Remdm(Rule[DecodeState]):
    """Fill to `ratio`; `loops` times re-mask the k least likely tokens and fill k; then fill the rest."""

    k: Count = 1
    """Positions per update."""
    ratio: Annotated[float, Field(gt=0, le=1)] = 0.875
    """Share of the response that is filled before the first re-mask."""
    loops: CountOrNone = 32
    """Turns of one re-masking and one filling update."""

    @property
    def reads(self) -> Scope:
        return Scope.BLOCK

    def limit(self, length: int) -> int:
        return self._plan(length)[2]

    def settled(self, state: DecodeState) -> Flags:
        """Nothing until the last re-masking update is made; then whatever is placed."""
        refilled = ended(state.updates, self._plan(state.length)[1])
        return np.where(refilled[:, None], kept(state), finished(state))

    def canvas(self, state: DecodeState) -> Canvas:
        takes = self._takes_back(state)[:, None]
        return one_block(state, np.where(takes, state.placed, state.masked))

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        best, (own,) = logits.read(
            self.sampled(state, logits),
            logits.probability(logits.at(state.response)),
        )
        takes = self._takes_back(state)
        remasked = trailing(own, state.placed, takes * self._counts(state))
        accepted = leading(best.confidence, state.masked, ~takes * self._counts(state))
        response = np.where(accepted, best.tokens, state.response)
        response = np.where(remasked, state.prompt.mask, response)
        after = state.advanced(response, ends_now(state, self.limit(state.length)))
        looked_at = np.where(takes[:, None], own, best.confidence)
        return after, Decision.accepting(accepted, best, remasked=remasked, confidence=looked_at)

    def _plan(self, length: int) -> tuple[int, int, int]:
        """Updates after which filling, refilling and everything ends."""
        filled = max(1, int(self.ratio * length))
        first = -(-filled // self.k)
        second = first + 2 * self.loops
        return first, second, second + -(-(length - filled) // self.k)

    def _takes_back(self, state: DecodeState) -> Flags:
        """[B]: every other update of the middle part."""
        first, second, _ = self._plan(state.length)
        takes = [first <= update < second and (update - first) % 2 == 0 for update in state.updates]
        return np.array(takes)

    def _counts(self, state: DecodeState) -> Ints:
        """[B]: k, but no more than the first part has left to fill."""
        filled = max(1, int(self.ratio * state.length))
        counts = [
            max(1, min(self.k, filled - update * self.k)) if update * self.k < filled else self.k
            for update in state.updates
        ]
        return np.array(counts)
