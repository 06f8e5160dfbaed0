"""ReMDM as used on LLaDA: fill most of the response, re-mask and refill for a while, fill the rest.

Axes: B rows, G response columns.  Deterministic: what an update does follows from its number alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from archer.decoders.base import (
    Decision,
    DecodeState,
    Rule,
    blank,
    ended,
    finished,
    kept,
    leading,
    one_block,
    trailing,
)
from archer.passes.canvas import Canvas, Flags, Ints, Prompt, Scope
from archer.passes.logits import Logits


@dataclass(frozen=True)
class Remdm(Rule):
    """Fill to `ratio`; `loops` times re-mask the k least likely tokens and fill k; then fill the rest."""

    k: Annotated[int, Field(ge=1)] = 1
    """Positions per update."""
    ratio: Annotated[float, Field(gt=0, le=1)] = 0.875
    """Share of the response that is filled before the first re-mask."""
    loops: Annotated[int, Field(ge=0)] = 32
    """Turns of one re-masking and one filling update."""
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """0 takes the likeliest token; above 0, tokens are drawn, the more evenly the higher it is."""

    @property
    def reads(self) -> Scope:
        return Scope.BLOCK

    @property
    def draws(self) -> bool:
        return self.temperature > 0

    def check(self, length: int) -> None:
        """Any length will do."""

    def start(self, prompt: Prompt, length: int) -> DecodeState:
        self.check(length)
        return blank(prompt, length)

    def limit(self, length: int) -> int:
        return self._plan(length)[2]

    def settled(self, state: DecodeState) -> Flags:
        """Nothing until the last re-masking update is made; then whatever is placed."""
        refilled = ended(state.updates, self._plan(state.length)[1])
        return np.where(refilled[:, None], kept(state), finished(state))

    def canvas(self, state: DecodeState) -> Canvas:
        takes = self._takes_back(state)[:, None]
        return one_block(state, np.where(takes, ~state.masked, state.masked))

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        best, (placed,) = logits.read(
            logits.sampled(self.temperature, state.prompt.keys, state.updates),
            logits.probability(logits.at(state.response)),
        )
        takes = self._takes_back(state)
        remasked = trailing(placed, ~state.masked, takes * self._counts(state))
        accepted = leading(best.confidence, state.masked, ~takes * self._counts(state))
        response = np.where(accepted, best.tokens, state.response)
        response = np.where(remasked, state.prompt.mask, response)
        updates = tuple(update + 1 for update in state.updates)
        done = ended(updates, self.limit(state.length))
        after = replace(state, response=response, done=done, updates=updates)
        decision = replace(
            Decision.accepting(accepted, best),
            remasked=remasked,
            confidence=np.where(takes[:, None], placed, best.confidence),
        )
        return after, decision

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
