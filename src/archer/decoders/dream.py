"""Dream's own sampler: a continuous schedule, four orders, tempered and truncated tokens.

Axes: B rows, G response columns.  Nothing is taken back; no blocks.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from pydantic.dataclasses import dataclass

from archer.decoders.base import Decision, DecodeState, Rule, chance, leading, one_block
from archer.decoders.fill_path import FillPath
from archer.decoders.nucleus import drawn, truncated
from archer.decoders.scheduled import ends_now
from archer.passes.bounds import Count, Temperature
from archer.passes.canvas import Canvas, Flags, Reals
from archer.passes.logits import Logits


@dataclass(frozen=True)
class Dream(Rule[DecodeState]):
    """At time t an update fills the share 1 - s/t of the masks that are left; all of them at the last."""

    steps: Count | None = None
    """Updates; one per token when left out."""
    alg: Literal["origin", "maskgit_plus", "topk_margin", "entropy"] = "entropy"
    """origin fills each mask at random; the others fill the surest by probability, margin or entropy."""
    alg_temp: Temperature = 0.0
    """Above 0, positions are drawn from a softmax of their score instead of taken from the top."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Only tokens within this share of probability are drawn; all of them when left out."""
    top_k: Count | None = None
    """Only this many of the likeliest tokens are drawn; all of them when left out."""
    eps: Annotated[float, Field(gt=0, lt=1)] = 1e-3
    """Where time ends."""

    @property
    def draws(self) -> bool:
        return self.alg == "origin" or self.alg_temp > 0 or self.temperature > 0

    @property
    def path(self) -> FillPath:
        if self.alg == "origin" or self.alg_temp > 0:
            return FillPath.BY_CHANCE
        return FillPath.BY_TOKEN if self.alg == "maskgit_plus" else FillPath.BY_STATE

    def limit(self, length: int) -> int:
        return length if self.steps is None else self.steps

    def canvas(self, state: DecodeState) -> Canvas:
        return one_block(state, state.masked)

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        cut = truncated(logits, self.temperature, self.top_p, self.top_k)
        best, (entropy, margin) = cut.read(
            drawn(cut, state, self.temperature), cut.entropy, cut.margin
        )
        scores = {"maskgit_plus": best.confidence, "topk_margin": margin, "entropy": -entropy}
        accepted = self._accept(state, scores)
        response = np.where(accepted, best.tokens, state.response)
        after = state.advanced(response, ends_now(state, self.limit(state.length)))
        return after, Decision.accepting(accepted, best)

    def _accept(self, state: DecodeState, scores: Mapping[str, Reals]) -> Flags:
        """[B, G]; a score for every order but `origin`."""
        share = self._share(state)
        if self.alg == "origin":
            return state.masked & (chance(state, "order") < share[:, None])
        score = scores[self.alg]
        if self.alg_temp > 0:
            gumbel = -np.log(-np.log(chance(state, "order")))
            score = score / self.alg_temp + gumbel
        count = (state.masked.sum(axis=1) * share).astype(np.int64)
        return leading(score, state.masked, count)

    def _share(self, state: DecodeState) -> Reals:
        """[B]: share of the masks that this update fills."""
        total = self.limit(state.length)
        times = torch.linspace(1, self.eps, total + 1, dtype=torch.float64).tolist()
        shares = [
            1.0 if update + 1 >= total else 1 - times[update + 1] / times[update]
            for update in state.updates
        ]
        return np.array(shares)
