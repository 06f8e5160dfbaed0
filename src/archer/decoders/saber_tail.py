"""Saber that lets the tail of end marks rest: half of a short answer, sure from the first updates on.

Axes: B rows, G response columns.

Not the published rule.  A trailing end mark that has stood for some updates is neither computed nor read
until the next look; its keys and values stay and are refreshed with the prompt.  It can therefore be taken
back `rest` updates late, and no later.  By default the tail wakes as a whole when its boundary falls back or
the token before it is taken back: then the length of the answer is in question.
"""

from __future__ import annotations

from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from typing import Literal

import numpy as np
from pydantic.dataclasses import dataclass

from archer.decoders.base import Decision, grow
from archer.decoders.saber import Saber, SaberState
from archer.errors import BadRequest
from archer.passes.bounds import Count, CountOrNone
from archer.passes.canvas import Canvas, Flags, Ints, Prompt, Reals
from archer.passes.logits import Logits


@plain_dataclass(frozen=True)
class SaberTailState(SaberState):
    """Saber's state, how long the tail has stood, and when it was looked at."""

    stood: Ints
    """[B, G]: updates that a column has been in the tail; 0 outside it."""
    unseen: Ints
    """[B]: updates since everything was read."""


@dataclass(frozen=True)
class SaberTail(Saber):
    """Saber whose settled end marks rest between looks."""

    settle: Count = 3
    """Updates that an end mark must have been in place before it rests."""
    rest: CountOrNone = 8
    """The most updates it rests before it is looked at again; 0 is Saber."""
    edge: CountOrNone = 2
    """End marks next to the answer that never rest."""
    wake: Literal["boundary", "look"] = "boundary"
    """What ends the rest early: a boundary that moves back, or nothing but the next look."""

    def check(self, length: int) -> None:
        if self.block is not None:
            raise BadRequest("saber-tail decodes the response as one block. Leave out the block.")
        super().check(length)

    def begin(self, prompt: Prompt, length: int) -> SaberTailState:
        base = super().begin(prompt, length)
        stood = np.zeros(base.response.shape, dtype=np.int64)
        return grow(SaberTailState, base, stood=stood, unseen=np.zeros(len(stood), dtype=np.int64))

    def canvas(self, state: SaberState) -> Canvas:
        plain = super().canvas(state)
        assert isinstance(state, SaberTailState)
        resting = np.zeros_like(plain.reads)
        resting[:, plain.response] = self.resting(state)
        return replace(plain, reads=plain.reads & ~resting, resting=resting)

    def resting(self, state: SaberTailState) -> Flags:
        """[B, G]: what the next pass neither computes nor reads."""
        tail = state.stood > 0
        first = state.length - tail.sum(axis=1)
        inside = np.arange(state.length) >= (first + self.edge)[:, None]
        asleep: Flags = inside & (state.stood >= self.settle) & (state.unseen < self.rest)[:, None]
        return asleep

    def step(self, state: SaberState, logits: Logits) -> tuple[SaberState, Decision]:
        assert isinstance(state, SaberTailState)
        looked = ~self.resting(state).any(axis=1)
        after, decision = super().step(state, logits)
        assert isinstance(after, SaberTailState)
        changed = replace(
            after,
            previous=np.where(np.isnan(after.previous), state.previous, after.previous),
            stood=self._stood(state, after.response, decision.remasked),
            unseen=np.where(looked, 0, state.unseen + 1),
        )
        return changed, decision

    def _stood(self, state: SaberTailState, response: Ints, remasked: Flags) -> Ints:
        """[B, G]: the tail's age; anew, if asked for, where it got shorter or the token before it went."""
        ends = np.isin(response, state.prompt.eos or state.prompt.ends)
        tail = np.logical_and.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
        if self.wake == "look":
            return np.where(tail, state.stood + 1, 0)
        before, length = (state.stood > 0).sum(axis=1), tail.sum(axis=1)
        place = np.maximum(state.length - before - 1, 0)
        lost = remasked[np.arange(len(place)), place] & (before < state.length)
        awake = (length < before) | lost
        stood: Ints = np.where(tail, np.where(awake[:, None], 1, state.stood + 1), 0)
        return stood

    def _doubted(self, sure: Reals, signs: Reals | None, accepted_at: Reals) -> Flags:
        return super()._doubted(sure, signs, accepted_at) & ~np.isnan(sure)
