"""Saber: accept every mask that beats the running bar, then take back what grew least in confidence.

Axes: B rows, G response columns.

The rule of the released LLaDA code, freed of its accidents.  Options name the variants that were published;
the released code's overwriting of placed tokens when fewer than n masks are left is not reproduced.
"""

from __future__ import annotations

from dataclasses import dataclass as plain_dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from archer.canvas import Canvas, Prompt, Scope
from archer.decoders.base import Decision, DecodeState, blank, grow, leading, trailing, whole_block
from archer.errors import BadRequest
from archer.logits import Candidates, Logits


@plain_dataclass(frozen=True)
class SaberState(DecodeState):
    """The response and two histories of confidence."""

    accepted_at: Tensor
    """Float64[B, G]: confidence at the last acceptance; NaN if never accepted; survives re-masking."""
    previous: Tensor
    """Float64[B, G]: confidence at the previous update; NaN where that update did not look."""
    block: Tensor
    """Long[B]: index of the block being decoded."""


@dataclass(frozen=True)
class Saber:
    """Accept above the mean accept-time confidence, at least n; re-mask about |accepted| / mu."""

    n: Annotated[int, Field(ge=1)] = 2
    """Positions accepted per update at least."""
    mu: Annotated[int, Field(ge=1)] = 2
    """Re-mask divisor; 8 is the first released version."""
    block: Annotated[int, Field(ge=1)] | None = None
    """Columns decoded together; earlier blocks stay revisable.  The whole response when left out."""
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    rollback: bool = True
    """False is the control without re-masking."""
    watch: Literal["argmax", "placed"] = "argmax"
    """Whose probability is followed at a placed token: the likeliest token's (released) or its own."""
    pool: Literal["ever", "current"] = "ever"
    """The bar averages every position ever accepted (released) or those now placed (the Saber paper)."""
    remask: Literal["ceil", "floor"] = "ceil"
    """Rounding of |accepted| / mu: up (released) or down (the Saber paper)."""
    precision: Literal["float64", "bfloat16"] = "float64"
    """bfloat16 rounds confidences and bar as the released code did on bf16 weights."""

    @property
    def reads(self) -> Scope:
        return Scope.RESPONSE if self.rollback else Scope.MASKS

    def start(self, prompt: Prompt, length: int) -> SaberState:
        if self.n > length:
            raise BadRequest(
                f"n = {self.n} positions per update do not fit a response of {length}. "
                f"Choose n at most {length}, or a longer response."
            )
        whole_block(self.block, length)
        base = blank(prompt, length)
        zeros = torch.zeros(base.response.shape, dtype=torch.float64, device=base.response.device)
        return grow(
            SaberState,
            base,
            accepted_at=torch.full_like(zeros, torch.nan),
            previous=zeros,
            block=torch.zeros_like(base.response[:, 0]),
        )

    def limit(self, length: int) -> int:
        """Every update but the last leaves at least one token more."""
        return length

    def canvas(self, state: SaberState) -> Canvas:
        block = whole_block(self.block, state.length)
        bounds = torch.stack((state.block * block, (state.block + 1) * block), dim=1)
        looked_at = torch.ones_like(state.masked) if self.rollback else state.masked
        return Canvas.plain(state.prompt, state.response, bounds, self._below(state, looked_at))

    def step(self, state: SaberState, logits: Logits) -> tuple[SaberState, Decision]:
        best = logits.sampled(self.temperature, state.prompt.keys, state.updates)
        sure = self._round(self._watched(state, best, logits))
        change = (sure - state.previous).nan_to_num(nan=torch.inf)
        bar = self._bar(state)
        accepted = self._accept(sure, bar, self._below(state, state.masked))
        response = torch.where(accepted, best.tokens, state.response)
        left = response == state.prompt.mask
        going, done = self._going(state, left)
        count = self._remask_count(accepted.sum(dim=1)) * going
        remasked = trailing(change, self._below(state, ~left), count)
        after = SaberState(
            prompt=state.prompt,
            response=response.masked_fill(remasked, state.prompt.mask),
            done=done,
            updates=tuple(update + 1 for update in state.updates),
            accepted_at=torch.where(accepted, sure, state.accepted_at),
            previous=self._below(state, sure, torch.nan),
            block=state.block if self.block is None else state.block + ~(going | done),
        )
        decision = Decision(
            accepted=accepted,
            remasked=remasked,
            replaced=torch.zeros_like(accepted),
            tokens=best.tokens,
            confidence=sure,
            threshold=bar,
        )
        return after, decision

    def _below(self, state: SaberState, values: Tensor, beyond: float = False) -> Tensor:
        """[B, G]: `values` in the current block and all before it, which the rule looks at; else `beyond`."""
        if self.block is None:
            return values
        end = (state.block + 1) * self.block
        columns = torch.arange(state.length, device=end.device)
        return values.masked_fill(columns >= end[:, None], beyond)

    def _going(self, state: SaberState, left: Tensor) -> tuple[Tensor, Tensor]:
        """Bool[B] twice: masks are left where the rule looks, and none are left at all."""
        some = left.any(dim=1)
        return some if self.block is None else self._below(state, left).any(dim=1), ~some

    def _watched(self, state: SaberState, best: Candidates, logits: Logits) -> Tensor:
        """Float64[B, G]: the confidence the rule follows."""
        if self.watch == "argmax":
            return best.confidence
        return torch.where(state.masked, best.confidence, logits.probability(state.response))

    def _bar(self, state: SaberState) -> Tensor:
        """Float64[B]: mean accept-time confidence, 1 while there is no history."""
        counted = self._below(state, state.accepted_at, torch.nan)
        if self.pool == "current":
            counted = counted.masked_fill(state.masked, torch.nan)
        return self._round(counted.nanmean(dim=1).nan_to_num(nan=1.0))

    def _accept(self, sure: Tensor, bar: Tensor, eligible: Tensor) -> Tensor:
        """Bool[B, G]: masks strictly above the bar; the n surest when those are fewer than n."""
        above = eligible & (sure > bar[:, None])
        at_least = leading(sure, eligible, self.n)
        return torch.where(above.sum(dim=1, keepdim=True) < self.n, at_least, above)

    def _remask_count(self, accepted: Tensor) -> Tensor:
        """Long[B]: fewer than were accepted, so that every update makes progress."""
        if not self.rollback:
            return torch.zeros_like(accepted)
        wanted = (accepted + (self.mu - 1 if self.remask == "ceil" else 0)) // self.mu
        return torch.minimum(wanted.clamp(min=self.n // 2), accepted - 1)

    def _round(self, confidence: Tensor) -> Tensor:
        if self.precision == "float64":
            return confidence
        return confidence.to(torch.bfloat16).to(torch.float64)
