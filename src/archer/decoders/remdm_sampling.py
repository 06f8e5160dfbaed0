"""The original ReMDM samplers: masks are filled and tokens re-masked by chance, at rates that follow time.

Axes: B rows, G response columns.  Four published strategies for the re-mask rate sigma; always stochastic.
"""

from dataclasses import dataclass as plain_dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from archer.decoders import nucleus
from archer.decoders.base import (
    Decision,
    DecodeState,
    Rule,
    blank,
    chance,
    finished,
    grow,
    kept,
    one_block,
)
from archer.decoders.scheduled import ended
from archer.passes.bounds import Count, Share, Temperature
from archer.passes.canvas import Canvas, Flags, Prompt, Reals, Scope
from archer.passes.logits import Logits

LAST_TIME = 1e-5
LEAST_WEIGHT = 1e-300
ETA = {"cap": 0.008, "rescale": 0.015, "conf": 0.0, "loop": 0.02}
"""Published strength of each strategy; `conf` has none."""


@plain_dataclass(frozen=True)
class SampledState(DecodeState):
    """The response and how likely each token was when it was placed."""

    placed_at: Reals
    """[B, G]: 0 where nothing is placed."""


class _Stage(NamedTuple):
    """Shares of the response placed before and after an update, and whether tokens are taken back."""

    before: float
    after: float
    active: bool


@dataclass(frozen=True)
class RemdmSampling(Rule[SampledState]):
    """`steps` chance updates, then one that fills what is left with the likeliest tokens."""

    strategy: Literal["cap", "rescale", "conf", "loop"] = "cap"
    """How strongly tokens are taken back: capped, scaled, by confidence, or in a loop at one time."""
    eta: Share | None = None
    """Strength of re-masking; the published value of the strategy when left out."""
    steps: Count | None = None
    """Random updates; one per token when left out."""
    temperature: Temperature = 1.0
    """0 takes the likeliest token; above 0, tokens are drawn, the more evenly the higher it is."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Only tokens within this share of probability are drawn."""
    t_on: Annotated[float, Field(gt=0, lt=1)] = 0.55
    """loop: time at which re-masking begins."""
    t_off: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """loop: time at which it ends."""
    alpha_on: Annotated[float, Field(gt=0, lt=1)] = 0.9
    """loop: share that is placed meanwhile."""

    @property
    def reads(self) -> Scope:
        """Masks only, but also such as were placed a moment ago."""
        return Scope.BLOCK

    @property
    def draws(self) -> bool:
        return True

    def begin(self, prompt: Prompt, length: int) -> SampledState:
        base = blank(prompt, length)
        return grow(SampledState, base, placed_at=np.zeros(base.response.shape))

    def limit(self, length: int) -> int:
        return (length if self.steps is None else self.steps) + 1

    def settled(self, state: SampledState) -> Flags:
        """Nothing while tokens may still be taken back; then whatever is placed."""
        over = np.array([self._only_fills(update, state.length) for update in state.updates])
        return np.where(over[:, None], kept(state), finished(state))

    def canvas(self, state: SampledState) -> Canvas:
        return one_block(state, state.masked)

    def step(self, state: SampledState, logits: Logits) -> tuple[SampledState, Decision]:
        last = self.limit(state.length) - 1
        ending = ended(state.updates, last)[:, None]
        cut = nucleus.truncated(logits, self.temperature, self.top_p, None)
        sampled = nucleus.drawn(cut, state, self.temperature)
        drawn, (likeliest,) = logits.read(sampled, logits.greedy.tokens)
        tokens = np.where(ending, likeliest, drawn.tokens)
        back, fill = self._rates(state)
        draw = chance(state, "remask")
        accepted = state.masked & ((draw < fill) | ending)
        remasked = state.placed & (draw < back) & ~ending
        response = np.where(accepted, tokens, state.response)
        after = state.advanced(
            np.where(remasked, state.prompt.mask, response),
            ending[:, 0],
            placed_at=np.select(
                [remasked, accepted], [np.zeros_like(draw), drawn.confidence], state.placed_at
            ),
        )
        return after, Decision.accepting(accepted, drawn, remasked=remasked, tokens=tokens)

    def _rates(self, state: SampledState) -> tuple[Reals, Reals]:
        """[B, G] or [B, 1] each: chance of a token to be re-masked and of a mask to be filled."""
        moments = [self._stage(update, state.length) for update in state.updates]
        before, after, active = (
            np.array(part, dtype=np.float64)[:, None] for part in zip(*moments, strict=True)
        )
        most = np.minimum((1 - after) / np.maximum(before, 1e-12), 1)
        sigma = self._sigma(most, state) * active
        fill = (after - (1 - sigma) * before) / (1 - before)
        return sigma, fill

    def _sigma(self, most: Reals, state: SampledState) -> Reals:
        eta = ETA[self.strategy] if self.eta is None else self.eta
        if self.strategy == "cap":
            return np.minimum(most, eta)
        if self.strategy == "rescale":
            return most * eta
        if self.strategy == "loop":
            return np.full_like(most, eta)
        weight = np.where(state.placed, np.exp(-state.placed_at), 0.0)
        whole: Reals = np.maximum(weight.sum(axis=1, keepdims=True), LEAST_WEIGHT)
        return weight / whole * most

    def _only_fills(self, update: int, length: int) -> bool:
        """Neither this update nor a later one takes tokens back."""
        looped = self.strategy == "loop" and self._time(update, length) <= self.t_off
        return looped or update >= self.limit(length) - 1

    def _stage(self, update: int, length: int) -> _Stage:
        """What this update begins and ends with."""
        size = (1 - LAST_TIME) / (self.limit(length) - 1)
        time = self._time(update, length)
        if self.strategy != "loop":
            return _Stage(1 - time, 1 - (time - size), True)
        active = self.t_off < time <= self.t_on
        return _Stage(self._looped(time), self._looped(time - size), active)

    def _time(self, update: int, length: int) -> float:
        """It runs from 1 to almost 0."""
        steps = self.limit(length) - 1
        return 1 - min(update, steps - 1) * ((1 - LAST_TIME) / steps)

    def _looped(self, time: float) -> float:
        """Up to `alpha_on`, there while re-masking, then up to 1."""
        if time > self.t_on:
            return (1 - time) / (1 - self.t_on) * self.alpha_on
        if time > self.t_off:
            return self.alpha_on
        return 1 - time / self.t_off * (1 - self.alpha_on)
