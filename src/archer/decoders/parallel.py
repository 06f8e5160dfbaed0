"""Decoders that fill as many masks as they dare: Fast-dLLM's threshold and factor, and EB-Sampler.

Axes: B rows, G response columns.  Each fills at least one mask per update and takes nothing back.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from archer.canvas import Canvas, Prompt, Scope
from archer.decoders.base import Decision, leading
from archer.decoders.blocks import BlockState
from archer.decoders.scores import score
from archer.logits import Candidates, Logits


@dataclass(frozen=True)
class Parallel:
    """What the three rules share; `_accept` is the rule."""

    block: Annotated[int, Field(ge=1)] | None = None
    """Columns decoded together, left to right; the whole response when left out."""
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0

    @property
    def reads(self) -> Scope:
        return Scope.MASKS

    def start(self, prompt: Prompt, length: int) -> BlockState:
        return BlockState.begin(prompt, length, self.block)

    def limit(self, length: int) -> int:
        return length

    def canvas(self, state: BlockState) -> Canvas:
        return state.canvas(state.masked & state.current)

    def step(self, state: BlockState, logits: Logits) -> tuple[BlockState, Decision]:
        best = logits.sampled(self.temperature, state.prompt.keys, state.updates)
        accepted = self._accept(state.masked & state.current, best, logits, state)
        after = state.moved(torch.where(accepted, best.tokens, state.response))
        return after, Decision.accepting(accepted, best)

    def _accept(
        self, eligible: Tensor, best: Candidates, logits: Logits, state: BlockState
    ) -> Tensor:
        """Bool[B, G]"""
        raise NotImplementedError


@dataclass(frozen=True)
class Threshold(Parallel):
    """Fast-dLLM: the surest mask, and every other whose confidence reaches the threshold."""

    threshold: Annotated[float, Field(ge=0, le=1)] = 0.9

    def _accept(
        self, eligible: Tensor, best: Candidates, logits: Logits, state: BlockState
    ) -> Tensor:
        surest = leading(best.confidence, eligible, 1)
        return surest | (eligible & (best.confidence >= self.threshold))


@dataclass(frozen=True)
class Factor(Parallel):
    """Fast-dLLM: the longest run of ranks j with (j + 1) * (1 - confidence) <= factor; rank 1 always."""

    factor: Annotated[float, Field(ge=0)] = 1.0

    def _accept(
        self, eligible: Tensor, best: Candidates, logits: Logits, state: BlockState
    ) -> Tensor:
        ranked = best.confidence.masked_fill(~eligible, -torch.inf).sort(dim=1, descending=True)
        rank = torch.arange(1, eligible.shape[1] + 1, device=eligible.device)
        passes = ranked.values >= 1 - self.factor / (rank + 1)
        passes[:, 0] = True
        count = passes.long().cumprod(dim=1).sum(dim=1)
        return leading(best.confidence, eligible, count)


@dataclass(frozen=True)
class EntropyBound(Parallel):
    """EB-Sampler: the longest prefix, surest first, whose joint entropy exceeds its largest by <= gamma."""

    gamma: Annotated[float, Field(ge=0)] = 0.1
    """Nats."""
    proxy: Literal["entropy", "confidence", "margin"] = "entropy"
    """What "surest" means."""

    def _accept(
        self, eligible: Tensor, best: Candidates, logits: Logits, state: BlockState
    ) -> Tensor:
        sure = score(self.proxy, logits, best, state)
        order = sure.masked_fill(~eligible, -torch.inf).argsort(dim=1, descending=True, stable=True)
        spread = logits.entropy.gather(1, order)
        excess = spread.cumsum(dim=1) - spread.cummax(dim=1).values
        within = excess <= self.gamma
        within[:, 0] = True
        return leading(sure, eligible, within.long().cumprod(dim=1).sum(dim=1))
