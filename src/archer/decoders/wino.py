"""WINO (wide in, narrow out): accept boldly, verify every placed token through a shadow that cannot see it.

Axes: B rows, G response columns, K block columns, L = P + G + K columns.

The shadow is a block of masks behind the response at the block's positions: shadow column j sees everything
but the placed token at its own position, so it predicts that token from all the others.  Ordinary columns do
not see the shadow.  Only the current block is revised.
"""

from __future__ import annotations

from dataclasses import dataclass as plain_dataclass
from dataclasses import fields, replace
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from archer.decoders.base import Attention, Decision, Rule, grow, leading, trailing, whole_block
from archer.decoders.blocks import BlockState
from archer.passes.canvas import Canvas, Flags, Ints, Prompt, Reals, Scope
from archer.passes.logits import Candidates, Logits

FEWEST, MOST, SHARE = 5, 20, 0.7
"""At most clamp(SHARE * masks, FEWEST, MOST) positions are accepted per update."""
FIRST_BUDGET = 30
"""How many re-masks the first update would allow."""


@plain_dataclass(frozen=True)
class WinoState(BlockState):
    """A block in progress and how many positions the last update accepted."""

    last_accepted: Ints
    """[B]: re-masks stay below this, so that the block fills up."""


@dataclass(frozen=True)
class Wino(Rule):
    """Accept above `threshold`, re-mask what its shadow gives less than `verify`."""

    threshold: Annotated[float, Field(ge=0, le=1)] = 0.7
    """Confidence above which a mask is filled."""
    verify: Annotated[float, Field(ge=0, le=1)] = 0.9
    """A placed token that its shadow gives less than this is taken back."""
    block: Annotated[int, Field(ge=1)] | None = None
    """Columns decoded together, left to right; the whole response when left out."""
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """0 takes the likeliest token; above 0, tokens are drawn, the more evenly the higher it is."""

    attention = Attention.FULL

    @property
    def reads(self) -> Scope:
        return Scope.BLOCK

    @property
    def draws(self) -> bool:
        return self.temperature > 0

    def check(self, length: int) -> None:
        whole_block(self.block, length)

    def blocks(self, length: int) -> int:
        return length // whole_block(self.block, length)

    def start(self, prompt: Prompt, length: int) -> WinoState:
        self.check(length)
        base = BlockState.begin(prompt, length, self.block)
        budget = np.full_like(base.block, FIRST_BUDGET)
        return grow(WinoState, base, last_accepted=budget)

    def limit(self, length: int) -> int:
        """Each block ends within its size plus the first budget."""
        return length + FIRST_BUDGET * (length // (self.block or length))

    def settled(self, state: WinoState) -> Flags:
        """Only the current block is revised."""
        return state.finished_blocks

    def canvas(self, state: WinoState) -> Canvas:
        plain = state.canvas(state.masked & state.current)
        size, scratch = state.size, plain.columns
        own = plain.block[:, :1] + np.arange(size)
        starts = np.array(plain.starts)[:, None]
        everywhere = np.broadcast_to(np.arange(scratch), (plain.rows, scratch))
        placed = ~np.take_along_axis(state.masked, own - plain.response.start, axis=1)
        visible = np.ones((plain.rows, scratch + size, scratch + size), dtype=np.bool_)
        visible[:, :scratch, scratch:] = False
        np.put_along_axis(visible[:, scratch:], own[:, :, None], False, axis=2)
        return replace(
            plain,
            tokens=np.concatenate((plain.tokens, np.full_like(own, state.prompt.mask)), axis=1),
            reads=np.concatenate((plain.reads, placed), axis=1),
            positions=np.concatenate((everywhere, own), axis=1) - starts,
            visible=visible,
        )

    def step(self, state: WinoState, logits: Logits) -> tuple[WinoState, Decision]:
        best, (shadow,) = logits.read(
            logits.sampled(self.temperature, state.prompt.keys, state.updates),
            logits.probability(logits.at(self._doubled(state))),
        )
        inside = Candidates(*(getattr(best, f.name)[:, : state.length] for f in fields(best)))
        masked = state.masked & state.current
        accepted = self._accept(inside.confidence, masked)
        count = accepted.sum(axis=1)
        trust = self._trust(state, shadow)
        placed = state.current & ~state.masked
        doubtful = placed & (trust < self.verify) & (count > 1)[:, None]
        remasked = trailing(trust, doubtful, state.last_accepted - 1)
        response = np.where(accepted, inside.tokens, state.response)
        response = np.where(remasked, state.prompt.mask, response)
        after = state.moved(response)
        budget = np.where(after.block != state.block, FIRST_BUDGET, count)
        decision = replace(
            Decision.accepting(accepted, inside),
            remasked=remasked,
            confidence=np.where(masked, inside.confidence, trust),
        )
        return replace(after, last_accepted=budget), decision

    def _accept(self, sure: Reals, masked: Flags) -> Flags:
        """[B, G]: the surest above the threshold up to the cap; the single surest if there is none."""
        cap = (SHARE * masked.sum(axis=1)).astype(np.int64).clip(FEWEST, MOST)
        above = masked & (sure > self.threshold)
        some = np.asarray(above.any(axis=1))
        return leading(sure, np.where(some[:, None], above, masked), np.where(some, cap, 1))

    def _doubled(self, state: WinoState) -> Ints:
        """[B, G + K]: the response, and once more what its block holds."""
        return np.concatenate(
            (state.response, np.take_along_axis(state.response, self._own(state), axis=1)), axis=1
        )

    def _trust(self, state: WinoState, seen: Reals) -> Reals:
        """[B, G]: what the shadow gives the placed tokens of the block; NaN elsewhere."""
        trust = np.full(state.response.shape, np.nan)
        np.put_along_axis(trust, self._own(state), seen[:, state.length :], axis=1)
        return trust

    def _own(self, state: WinoState) -> Ints:
        """[B, K]: the block's columns, counted from the response."""
        return state.block[:, None] * state.size + np.arange(state.size)
