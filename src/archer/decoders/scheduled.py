"""Decoders on a fixed schedule: fill the surest masks, block by block, and keep them.

Axes: B rows, G response columns.  With `confidence` this is LLaDA's own decoding.  Nothing is taken back.
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
    kept,
    leading,
    whole_block,
)
from archer.decoders.scores import Score, scored
from archer.errors import BadRequest
from archer.passes.canvas import Canvas, Flags, Ints, Prompt, Scope
from archer.passes.logits import Logits


@dataclass(frozen=True)
class Scheduled(Rule):
    """A block of B masks is filled in steps * B / G updates, as evenly as integers allow."""

    block: Annotated[int, Field(ge=1)] | None = None
    """Columns decoded together, left to right; the whole response when left out."""
    steps: Annotated[int, Field(ge=1)] | None = None
    """Updates over the whole response; one per token when left out."""
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """0 takes the likeliest token; above 0, tokens are drawn, the more evenly the higher it is."""
    score: Score = "confidence"
    """What "surest" means; `random` draws anew at every update."""

    @property
    def reads(self) -> Scope:
        return Scope.MASKS

    @property
    def draws(self) -> bool:
        return self.temperature > 0 or self.score == "random"

    def check(self, length: int) -> None:
        self._updates_per_block(length)

    def blocks(self, length: int) -> int:
        return length // whole_block(self.block, length)

    def start(self, prompt: Prompt, length: int) -> DecodeState:
        self.check(length)
        return blank(prompt, length)

    def limit(self, length: int) -> int:
        return self._total(length)

    def settled(self, state: DecodeState) -> Flags:
        return kept(state)

    def canvas(self, state: DecodeState) -> Canvas:
        bounds = np.stack(self._bounds(state), axis=1)
        return Canvas.plain(state.prompt, state.response, bounds, self._eligible(state))

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        drawn = logits.sampled(self.temperature, state.prompt.keys, state.updates)
        best, ranked = scored(self.score, logits, drawn, state)
        accepted = leading(ranked, self._eligible(state), self._counts(state))
        response = np.where(accepted, best.tokens, state.response)
        updates = tuple(update + 1 for update in state.updates)
        done = ended(updates, self._total(state.length))
        after = replace(state, response=response, done=done, updates=updates)
        return after, Decision.accepting(accepted, best)

    def _eligible(self, state: DecodeState) -> Flags:
        """[B, G]: the masks this update may fill."""
        columns = np.arange(state.length)
        return state.masked & (columns < self._bounds(state)[1][:, None])

    def _total(self, length: int) -> int:
        return length if self.steps is None else self.steps

    def _updates_per_block(self, length: int) -> int:
        blocks = length // whole_block(self.block, length)
        total = self._total(length)
        if total % blocks:
            raise BadRequest(
                f"{total} steps cannot be spread evenly over {blocks} blocks. "
                f"Choose steps as a multiple of {blocks}."
            )
        return total // blocks

    def _bounds(self, state: DecodeState) -> tuple[Ints, Ints]:
        """[B] each: where the current block starts and ends in the response."""
        block = whole_block(self.block, state.length)
        each = self._updates_per_block(state.length)
        last = state.length - block
        starts = [min(update // each * block, last) for update in state.updates]
        low = np.array(starts)
        return low, low + block

    def _counts(self, state: DecodeState) -> Ints:
        """[B]: how many masks this update fills."""
        block = whole_block(self.block, state.length)
        each = self._updates_per_block(state.length)
        counts = [share_of(block, each, update % each) for update in state.updates]
        return np.array(counts)


def share_of(masks: int, updates: int, index: int) -> int:
    """How many of `masks` the update `index` of `updates` fills: an even split, the rest first."""
    share, extra = divmod(masks, updates)
    return share + (index < extra)
