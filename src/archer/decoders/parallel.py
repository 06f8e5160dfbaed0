"""Decoders that fill as many masks as they dare: Fast-dLLM's threshold and factor, and EB-Sampler.

Axes: B rows, G response columns.  Each fills at least one mask per update and takes nothing back.
"""

from typing import ClassVar, Literal

import numpy as np
from pydantic.dataclasses import dataclass

from archer.decoders.base import Decision, above_or_surest, leading
from archer.decoders.blocks import BlockState, Blockwise
from archer.decoders.fill_path import FillPath
from archer.passes.bounds import Multiple, Share
from archer.passes.canvas import Canvas, Flags, Ints, Prompt
from archer.passes.logits import Answers, Candidates, Logits


@dataclass(frozen=True)
class Parallel(Blockwise[BlockState]):
    """What the three rules share; `_accept` is the rule."""

    resizes: ClassVar[bool] = True

    def begin(self, prompt: Prompt, length: int) -> BlockState:
        return BlockState.begin(prompt, length, self.block)

    def canvas(self, state: BlockState) -> Canvas:
        return state.canvas(state.masked & state.current)

    def step(self, state: BlockState, logits: Logits) -> tuple[BlockState, Decision]:
        eligible = state.masked & state.current
        best, accepted = self._choose(eligible, self.sampled(state, logits), logits)
        after = state.moved(np.where(accepted, best.tokens, state.response))
        return after, Decision.accepting(accepted, best)

    def _choose(self, eligible: Flags, drawn: Answers, logits: Logits) -> tuple[Candidates, Flags]:
        """What could be placed, and [B, G] where it is."""
        raise NotImplementedError


@dataclass(frozen=True)
class Threshold(Parallel):
    """Fast-dLLM: the surest mask, and every other whose confidence reaches the threshold."""

    threshold: Share = 0.9
    """Confidence at which a mask is filled."""

    def _choose(self, eligible: Flags, drawn: Answers, logits: Logits) -> tuple[Candidates, Flags]:
        best, _ = logits.read(drawn)
        above = eligible & (best.confidence >= self.threshold)
        return best, above_or_surest(above, best.confidence, eligible, 1)


@dataclass(frozen=True)
class Factor(Parallel):
    """Fast-dLLM: the longest run of ranks j with (j + 1) * (1 - confidence) <= factor; rank 1 always."""

    factor: Multiple = 1.0
    """How many are filled together: the larger, the more, and the less sure they need to be."""

    def _choose(self, eligible: Flags, drawn: Answers, logits: Logits) -> tuple[Candidates, Flags]:
        best, _ = logits.read(drawn)
        ranked = -np.sort(np.where(eligible, -best.confidence, np.inf), axis=1)
        rank = np.arange(1, eligible.shape[1] + 1)
        passes = ranked >= 1 - self.factor / (rank + 1)
        return best, leading(best.confidence, eligible, _first_run(passes))


@dataclass(frozen=True)
class EntropyBound(Parallel):
    """EB-Sampler: the longest prefix, surest first, whose joint entropy exceeds its largest by <= gamma."""

    gamma: Multiple = 0.1
    """Nats."""
    proxy: Literal["entropy", "confidence", "margin"] = "entropy"
    """What "surest" means."""

    @property
    def path(self) -> FillPath:
        return FillPath.BY_TOKEN if self.proxy == "confidence" else FillPath.BY_STATE

    def _choose(self, eligible: Flags, drawn: Answers, logits: Logits) -> tuple[Candidates, Flags]:
        best, (entropy, margin) = logits.read(
            drawn, logits.entropy, logits.margin if self.proxy == "margin" else logits.entropy
        )
        sure = {"entropy": -entropy, "confidence": best.confidence, "margin": margin}[self.proxy]
        order = np.where(eligible, -sure, np.inf).argsort(axis=1, kind="stable")
        spread = np.take_along_axis(entropy, order, axis=1)
        excess = spread.cumsum(axis=1) - np.maximum.accumulate(spread, axis=1)
        return best, leading(sure, eligible, _first_run(excess <= self.gamma))


def _first_run(passes: Flags) -> Ints:
    """[B, G] -> [B]: how many pass before the first that does not; the first of all always passes."""
    passes[:, 0] = True
    run: Ints = passes.cumprod(axis=1).sum(axis=1)
    return run
