"""Saber as released for Dream: another rule than Saber for LLaDA, under its own name.

Axes: B rows, G response columns.  One block; the bar counts first acceptances only, and tokens are taken
back by their own probability, not by its change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from typing import Annotated

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from archer.canvas import Canvas, Prompt, Scope
from archer.decoders.base import Decision, DecodeState, blank, grow, leading, one_block, trailing
from archer.logits import Logits

EPS = 1e-3
"""Where Dream's time ends."""


@plain_dataclass(frozen=True)
class SaberDreamState(DecodeState):
    """The response and when it was first sure of each position."""

    first_accepted_at: Tensor
    """Float64[B, G]: confidence at the first acceptance; NaN if never accepted."""


@dataclass(frozen=True)
class SaberDream:
    """Accept above the mean first-time confidence, at least n; re-mask the least likely placed tokens."""

    n: Annotated[int, Field(ge=2)] = 2
    """Positions accepted per update at least."""
    mu: Annotated[int, Field(ge=1)] = 8
    """Re-mask divisor."""
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    eos_penalty: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Times log(1 - t + eps) is added to end-of-text logits where masks are filled; t falls from 1."""
    steps: Annotated[int, Field(ge=1)] = 512
    """Updates over which t falls; later ones stay at its end."""

    @property
    def reads(self) -> Scope:
        return Scope.BLOCK

    def start(self, prompt: Prompt, length: int) -> SaberDreamState:
        base = blank(prompt, length)
        never = torch.full(
            base.response.shape, torch.nan, dtype=torch.float64, device=base.response.device
        )
        return grow(SaberDreamState, base, first_accepted_at=never)

    def limit(self, length: int) -> int:
        """Every update but the last leaves at least one token more."""
        return length

    def canvas(self, state: SaberDreamState) -> Canvas:
        return one_block(state, torch.ones_like(state.masked))

    def step(self, state: SaberDreamState, logits: Logits) -> tuple[SaberDreamState, Decision]:
        penalised = self._penalised(state, logits)
        best = penalised.sampled(self.temperature, state.prompt.keys, state.updates)
        first, masked = state.first_accepted_at, state.masked
        known = ~first.isnan()
        mean = first.nan_to_num().sum(dim=1) / known.sum(dim=1).clamp(min=1)
        bar = torch.where(known.any(dim=1), mean, 1.0)
        above = masked & (best.confidence > bar[:, None])
        floor = leading(best.confidence, masked, self.n)
        accepted = torch.where(above.sum(dim=1, keepdim=True) < self.n, floor, above)
        response = torch.where(accepted, best.tokens, state.response)
        left = response == state.prompt.mask
        done = ~left.any(dim=1)
        count = accepted.sum(dim=1)
        back = ((count + self.mu - 1) // self.mu).minimum(count - 1).clamp(min=1)
        back = back * (~done & ((~left).sum(dim=1) > 1))
        placed = logits.probability(response)
        remasked = trailing(placed, ~left, back)
        after = SaberDreamState(
            prompt=state.prompt,
            response=response.masked_fill(remasked, state.prompt.mask),
            done=done,
            updates=tuple(update + 1 for update in state.updates),
            first_accepted_at=torch.where(accepted & ~known, best.confidence, first),
        )
        decision = Decision(
            accepted=accepted,
            remasked=remasked,
            replaced=torch.zeros_like(accepted),
            tokens=best.tokens,
            confidence=torch.where(masked, best.confidence, placed),
            threshold=bar,
        )
        return after, decision

    def _penalised(self, state: SaberDreamState, logits: Logits) -> Logits:
        """The logits that masks are filled from; placed tokens are judged by the plain ones."""
        if self.eos_penalty == 0 or not state.prompt.eos:
            return logits
        rows = []
        for row, update in zip(logits.rows, state.updates, strict=True):
            time = 1 + (EPS - 1) * min(update, self.steps) / self.steps
            values = row.values.clone()
            values[:, list(state.prompt.eos)] += self.eos_penalty * math.log(1 - time + EPS)
            rows.append(replace(row, values=values))
        return Logits(rows, logits.answers, logits.mask)
