"""Saber as released for Dream: another rule than Saber for LLaDA, under its own name.

Axes: B rows, G response columns.  One block; the bar counts first acceptances only, and tokens are taken
back by their own probability, not by its change.
"""

import math
from dataclasses import dataclass as plain_dataclass
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from archer.decoders.base import (
    Decision,
    DecodeState,
    Rule,
    above_or_surest,
    blank,
    grow,
    one_block,
    settled_prefix,
    trailing,
)
from archer.passes.bounds import MOST_COUNT, Count, Multiple
from archer.passes.canvas import Canvas, Flags, Ints, Prompt, Reals, Scope
from archer.passes.logits import Logits

EPS = 1e-3
"""Where Dream's time ends."""


@plain_dataclass(frozen=True)
class SaberDreamState(DecodeState):
    """The response and when it was first sure of each position."""

    first_accepted_at: Reals
    """[B, G]: confidence at the first acceptance; NaN if never accepted."""
    unchanged: Ints
    """[B, G]: updates since the token was placed; 0 where nothing is."""


@dataclass(frozen=True)
class SaberDream(Rule[SaberDreamState]):
    """Accept above the mean first-time confidence, at least n; re-mask the least likely placed tokens."""

    n: Annotated[int, Field(ge=2, le=MOST_COUNT)] = 2
    """The fewest positions accepted per update; as a keyword in Python `least`, where n counts samples."""
    mu: Count = 8
    """Re-mask divisor."""
    eos_penalty: Multiple = 0.0
    """Times log(1 - t + eps) is added to end-of-text logits where masks are filled; t falls from 1."""
    steps: Count = 512
    """Updates over which t falls; later ones stay at its end."""
    settle: Count | None = None
    """Updates after which a token that nobody took back stays, if all before it stay: text that streams."""

    @property
    def reads(self) -> Scope:
        return Scope.BLOCK

    def begin(self, prompt: Prompt, length: int) -> SaberDreamState:
        base = blank(prompt, length)
        return grow(
            SaberDreamState,
            base,
            first_accepted_at=np.full(base.response.shape, np.nan),
            unchanged=np.zeros(base.response.shape, dtype=np.int64),
        )

    def settled(self, state: SaberDreamState) -> Flags:
        return super().settled(state) | settled_prefix(state, state.unchanged, self.settle)

    def canvas(self, state: SaberDreamState) -> Canvas:
        return one_block(state, np.ones_like(state.masked))

    def step(self, state: SaberDreamState, logits: Logits) -> tuple[SaberDreamState, Decision]:
        penalised = self._penalised(state, logits)
        drawn = self.sampled(state, penalised)
        best, (of_placed, of_drawn) = penalised.read(
            drawn,
            logits.probability(logits.at(state.response)),
            logits.probability(drawn.tokens),
        )
        first, masked = state.first_accepted_at, state.masked
        known = ~np.isnan(first)
        mean = np.where(known, first, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        bar = np.where(known.any(axis=1), mean, 1.0)
        above = masked & (best.confidence > bar[:, None])
        accepted = above_or_surest(above, best.confidence, masked, self.n)
        response = np.where(accepted, best.tokens, state.response)
        placed = state.placed_in(response)
        done = state.filled(response)
        count = accepted.sum(axis=1)
        back = np.maximum(np.minimum((count + self.mu - 1) // self.mu, count - 1), 1)
        back = back * (~done & (placed.sum(axis=1) > 1))
        own = np.where(accepted, of_drawn, of_placed)
        stays = settled_prefix(state, state.unchanged, self.settle)
        remasked = trailing(own, placed & ~stays, back)
        after = state.advanced(
            np.where(remasked, state.prompt.mask, response),
            done,
            first_accepted_at=np.where(accepted & ~known, best.confidence, first),
            unchanged=np.where(state.placed & ~remasked, state.unchanged + 1, 0),
        )
        looked_at = np.where(masked, best.confidence, own)
        return after, Decision.accepting(
            accepted, best, remasked=remasked, confidence=looked_at, threshold=bar
        )

    def _penalised(self, state: SaberDreamState, logits: Logits) -> Logits:
        """The logits that masks are filled from; placed tokens are judged by the plain ones."""
        if self.eos_penalty == 0 or not state.prompt.eos:
            return logits
        rows = []
        for row, update in zip(logits.rows, state.updates, strict=True):
            time = 1 + (EPS - 1) * min(update, self.steps) / self.steps
            values = row.values.clone()
            values[:, list(state.prompt.eos)] += self.eos_penalty * math.log(1 - time + EPS)
            rows.append(row.with_values(values))
        return logits.changed(rows)
