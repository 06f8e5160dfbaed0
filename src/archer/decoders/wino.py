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

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from archer.canvas import Canvas, Prompt, Scope
from archer.decoders.base import Decision, grow, leading, trailing
from archer.decoders.blocks import BlockState
from archer.logits import Candidates, Logits

FEWEST, MOST, SHARE = 5, 20, 0.7
"""At most clamp(SHARE * masks, FEWEST, MOST) positions are accepted per update."""
FIRST_BUDGET = 30
"""How many re-masks the first update would allow."""


@plain_dataclass(frozen=True)
class WinoState(BlockState):
    """A block in progress and how many positions the last update accepted."""

    last_accepted: Tensor
    """Long[B]: re-masks stay below this, so that the block fills up."""


@dataclass(frozen=True)
class Wino:
    """Accept above `threshold`, re-mask what its shadow gives less than `verify`."""

    threshold: Annotated[float, Field(ge=0, le=1)] = 0.7
    verify: Annotated[float, Field(ge=0, le=1)] = 0.9
    block: Annotated[int, Field(ge=1)] | None = None
    """Columns decoded together, left to right; the whole response when left out."""
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0

    @property
    def reads(self) -> Scope:
        return Scope.BLOCK

    def start(self, prompt: Prompt, length: int) -> WinoState:
        base = BlockState.begin(prompt, length, self.block)
        budget = torch.full_like(base.block, FIRST_BUDGET)
        return grow(WinoState, base, last_accepted=budget)

    def limit(self, length: int) -> int:
        """Each block ends within its size plus the first budget."""
        return length + FIRST_BUDGET * (length // (self.block or length))

    def canvas(self, state: WinoState) -> Canvas:
        plain = state.canvas(state.masked & state.current)
        size, scratch = state.size, plain.columns
        inside = torch.arange(size, device=state.response.device)
        own = plain.block[:, :1] + inside
        tokens = torch.full_like(own, state.prompt.mask)
        starts = torch.tensor(plain.starts, device=own.device)[:, None]
        everywhere = torch.arange(scratch, device=own.device).expand(plain.rows, scratch)
        placed = ~state.masked.gather(1, own - plain.response.start)
        visible = own.new_ones((plain.rows, scratch + size, scratch + size), dtype=torch.bool)
        visible[:, :scratch, scratch:] = False
        visible[:, scratch:] = visible[:, scratch:].scatter(2, own[:, :, None], False)
        return replace(
            plain,
            tokens=torch.cat((plain.tokens, tokens), dim=1),
            reads=torch.cat((plain.reads, placed), dim=1),
            positions=torch.cat((everywhere, own), dim=1) - starts,
            visible=visible,
        )

    def step(self, state: WinoState, logits: Logits) -> tuple[WinoState, Decision]:
        best = logits.sampled(self.temperature, state.prompt.keys, state.updates)
        inside = Candidates(*(getattr(best, f.name)[:, : state.length] for f in fields(best)))
        masked = state.masked & state.current
        accepted = self._accept(inside.confidence, masked)
        count = accepted.sum(dim=1)
        trust = self._trust(state, logits)
        placed = state.current & ~state.masked
        doubtful = placed & (trust < self.verify) & (count > 1)[:, None]
        remasked = trailing(trust, doubtful, state.last_accepted - 1)
        response = torch.where(accepted, inside.tokens, state.response)
        response = response.masked_fill(remasked, state.prompt.mask)
        after = replace(state.moved(response), last_accepted=count)
        fresh = (after.block != state.block)[:, None]
        budget = after.last_accepted.masked_fill(fresh.squeeze(1), FIRST_BUDGET)
        decision = replace(
            Decision.accepting(accepted, inside),
            remasked=remasked,
            confidence=torch.where(masked, inside.confidence, trust),
        )
        return replace(after, last_accepted=budget), decision

    def _accept(self, sure: Tensor, masked: Tensor) -> Tensor:
        """Bool[B, G]: the surest above the threshold up to the cap; the single surest if there is none."""
        cap = (SHARE * masked.sum(dim=1)).long().clamp(FEWEST, MOST)
        above = masked & (sure > self.threshold)
        some = above.any(dim=1, keepdim=True)
        return leading(sure, torch.where(some, above, masked), torch.where(some[:, 0], cap, 1))

    def _trust(self, state: WinoState, logits: Logits) -> Tensor:
        """Float64[B, G]: what the shadow gives the placed tokens of the block; NaN elsewhere."""
        inside = torch.arange(state.size, device=state.response.device)
        own = state.block[:, None] * state.size + inside
        placed = torch.cat((state.response, state.response.gather(1, own)), dim=1)
        shadow = logits.probability(placed)[:, state.length :]
        return (
            torch.full_like(shadow[:, :1], torch.nan)
            .repeat(1, state.length)
            .scatter(1, own, shadow)
        )
