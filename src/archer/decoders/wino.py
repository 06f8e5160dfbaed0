"""WINO (wide in, narrow out): accept boldly, verify every placed token through a shadow that cannot see it.

Axes: B rows, G response columns, K block columns, L = P + G + K columns.

The shadow is a block of masks behind the response at the block's positions: shadow column j sees everything
but the placed token at its own position, so it predicts that token from all the others.  Ordinary columns do
not see the shadow.  Only the current block is revised.
"""

from dataclasses import dataclass as plain_dataclass
from dataclasses import fields, replace

import numpy as np
from pydantic.dataclasses import dataclass

from archer.decoders.base import Attention, Decision, above_or_surest, grow, leading, trailing
from archer.decoders.blocks import BlockState, Blockwise
from archer.passes.bounds import Share
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
class Wino(Blockwise[WinoState]):
    """Accept above `threshold`, re-mask what its shadow gives less than `verify`."""

    threshold: Share = 0.7
    """Confidence above which a mask is filled."""
    verify: Share = 0.9
    """A placed token that its shadow gives less than this is taken back."""

    attention = Attention.FULL

    @property
    def reads(self) -> Scope:
        return Scope.BLOCK

    def begin(self, prompt: Prompt, length: int) -> WinoState:
        base = BlockState.begin(prompt, length, self.block)
        budget = np.full_like(base.block, FIRST_BUDGET)
        return grow(WinoState, base, last_accepted=budget)

    def limit(self, length: int) -> int:
        """Each block ends within its size plus the first budget."""
        return length + FIRST_BUDGET * self.blocks(length)

    def settled(self, state: WinoState) -> Flags:
        """Only the current block is revised."""
        return state.finished_blocks

    def canvas(self, state: WinoState) -> Canvas:
        plain = state.canvas(state.masked & state.current)
        size, scratch = state.size, plain.columns
        inside = self._own(state)
        own = plain.answers[inside]
        everywhere = np.broadcast_to(np.arange(scratch), (plain.rows, scratch))
        placed = np.take_along_axis(state.placed, inside, axis=1)
        visible = np.ones((plain.rows, scratch + size, scratch + size), dtype=np.bool_)
        visible[:, :scratch, scratch:] = False
        np.put_along_axis(visible[:, scratch:], own[:, :, None], False, axis=2)
        return replace(
            plain,
            tokens=np.concatenate((plain.tokens, np.full_like(own, state.prompt.mask)), axis=1),
            reads=np.concatenate((plain.reads, placed), axis=1),
            positions=np.concatenate((everywhere, own), axis=1),
            visible=visible,
        )

    def step(self, state: WinoState, logits: Logits) -> tuple[WinoState, Decision]:
        best, (shadow,) = logits.read(
            self.sampled(state, logits),
            logits.probability(logits.at(self._doubled(state))),
        )
        inside = Candidates(*(getattr(best, f.name)[:, : state.length] for f in fields(best)))
        masked = state.masked & state.current
        accepted = self._accept(inside.confidence, masked)
        count = accepted.sum(axis=1)
        trust = self._trust(state, shadow)
        doubtful = state.current & state.placed & (trust < self.verify) & (count > 1)[:, None]
        remasked = trailing(trust, doubtful, state.last_accepted - 1)
        response = np.where(accepted, inside.tokens, state.response)
        response = np.where(remasked, state.prompt.mask, response)
        after = state.moved(response)
        budget = np.where(after.block != state.block, FIRST_BUDGET, count)
        looked_at = np.where(masked, inside.confidence, trust)
        decision = Decision.accepting(accepted, inside, remasked=remasked, confidence=looked_at)
        return replace(after, last_accepted=budget), decision

    def _accept(self, sure: Reals, masked: Flags) -> Flags:
        """[B, G]: the surest above the threshold up to the cap; the single surest if there is none."""
        cap = (SHARE * masked.sum(axis=1)).astype(np.int64).clip(FEWEST, MOST)
        return leading(
            sure, above_or_surest(masked & (sure > self.threshold), sure, masked, 1), cap
        )

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
        """[B, K]: the block's columns, counted among the open ones."""
        return state.block[:, None] * state.size + np.arange(state.size)
