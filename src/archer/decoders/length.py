"""How long a response becomes: the canvas follows the answer, not a number that somebody guessed.

Axes: B rows, G response columns: the most that a row may get.

Both rules wrap a decoder that ends when no mask is left (`Rule.resizes`).  Columns come and go at the end
only, so positions and the prompt's cache stay valid.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from archer.decoders.base import Decision, DecodeState, Rule
from archer.decoders.wrappers import Wrapped
from archer.passes.canvas import Canvas, Flags, Ints, Prompt, Reals, among
from archer.passes.logits import Candidates, Logits

SURE = 0.99
"""Probability of an end mark in the last column below which the answer may need more room."""


@dataclass(frozen=True)
class Resized(Wrapped):
    """What the rules share: a canvas in which every row stops where its state says."""

    def canvas(self, state: DecodeState) -> Canvas:
        plain = self.inner.canvas(state)
        first = plain.response.start
        reads = plain.reads.copy()
        reads[:, plain.open] &= state.existing
        return replace(plain, reads=reads, stops=first + state.stops)


@dataclass(frozen=True)
class Sized(Resized):
    """Cut what the first pass is sure is end marks; grow where no end is in sight.

    While the last column is no sure end mark the canvas doubles, before anything is placed.  Then the end
    marks behind the answer go: the first `margin` of them stay masks, the next `keep` are placed and rest
    until a pass computes everything anyway, and those behind cease to exist.  A row that ends without an end
    mark gets `grow` masks more.
    """

    start_length: int
    cut: float
    """Probability at which an end mark is sure; only a run of them up to the last column counts."""
    margin: int
    keep: int
    grow: int

    def start(self, prompt: Prompt, length: int) -> DecodeState:
        state = super().start(prompt, length)
        return replace(state, stops=np.minimum(state.stops, self.start_length))

    def limit(self, length: int) -> int:
        """Those of the rule, and one for every time that the canvas doubles."""
        return self.inner.limit(length) + length.bit_length()

    def canvas(self, state: DecodeState) -> Canvas:
        """Until the length is known, every column is read."""
        canvas = super().canvas(state)
        resting = np.zeros_like(canvas.reads) if canvas.resting is None else canvas.resting.copy()
        resting[:, canvas.open] |= state.resting
        reads = canvas.reads & ~resting
        reads[:, canvas.open] |= _unsized(state)[:, None] & state.existing
        anchored = canvas.resting is None
        return replace(canvas, reads=reads, resting=resting, wakes=True, anchored=anchored)

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        unsized = _unsized(state)
        if not unsized.any():
            after, decision = self.inner.step(state, logits)
            return self._with_room(after), decision
        best, _ = logits.read(logits.greedy)
        run = _sure_ends(state, best, self.cut)
        last = np.take_along_axis(_end_probability(state, best), state.stops[:, None] - 1, axis=1)
        short = unsized & (last[:, 0] < SURE) & (state.stops < state.length)
        whole, marks = self._cut(state, best, np.where(unsized & ~short, run, 0))
        after, decision = self.inner.step(whole, logits)
        written = replace(
            decision,
            accepted=decision.accepted | marks,
            tokens=np.where(marks, best.tokens, decision.tokens),
            confidence=np.where(marks, best.confidence, decision.confidence),
        )
        if not short.any():
            return self._with_room(after), written
        wider = replace(state, stops=np.minimum(2 * state.stops, state.length))
        nothing = np.zeros_like(written.accepted)
        idle = Decision.accepting(nothing, best)
        return (
            replace(_chosen(short, wider, self._with_room(after)), updates=after.updates),
            _chosen(short, idle, written),
        )

    def _cut(self, state: DecodeState, best: Candidates, run: Ints) -> tuple[DecodeState, Flags]:
        """The state without the last columns of each `run` [B] of end marks, and [B, G] the marks placed."""
        columns = np.arange(state.length)
        first = (state.stops - np.maximum(run - self.margin, 0))[:, None]
        stops = np.minimum(state.stops, first[:, 0] + self.keep)
        marks = (columns >= first) & (columns < stops[:, None])
        foreseen = (columns >= first) & state.existing
        assert isinstance(self.inner, Rule)
        known: DecodeState = self.inner.remembering(state, foreseen, best)
        response = np.where(marks, best.tokens, state.response)
        return replace(known, response=response, stops=stops, resting=marks), marks

    def _with_room(self, state: DecodeState) -> DecodeState:
        """Rows that have ended without an end mark go on with more masks, as long as there may be more.

        So do those whose plan has ended before their masks have: growing took some of its updates.
        """
        ends = among(state.response, state.prompt.end_marks).any(axis=1)
        short = state.done & ~ends & (state.stops < state.length)
        stops = np.where(short, np.minimum(state.stops + self.grow, state.length), state.stops)
        resting = state.resting & state.placed
        done = state.done & ~short & ~state.masked.any(axis=1)
        return replace(state, stops=stops, done=done, resting=resting)


@dataclass(frozen=True)
class Appended(Resized):
    """Append block after block of masks; the response ends with the first block that holds an end mark."""

    def start(self, prompt: Prompt, length: int) -> DecodeState:
        state = super().start(prompt, length)
        return self._reaching(state)

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        after, decision = self.inner.step(state, logits)
        longer = self._reaching(after)
        left = longer.stops > after.stops
        over = left & among(after.response, after.prompt.end_marks).any(axis=1)
        stops = np.where(over, after.stops, longer.stops)
        full = after.done & (after.stops >= after.length)
        return replace(after, stops=stops, done=full | over), decision

    def _reaching(self, state: DecodeState) -> DecodeState:
        """The state whose rows stop behind the block that is decoded next."""
        canvas = self.inner.canvas(state)
        return replace(state, stops=canvas.block[:, 1] - canvas.response.start)


Rows = TypeVar("Rows", DecodeState, Decision)


def _chosen(rows: Flags, then: Rows, otherwise: Rows) -> Rows:
    """`then` in the rows [B] that say so, field by field."""
    changes: dict[str, Any] = {
        item.name: np.where(rows.reshape(-1, *(1,) * (mine.ndim - 1)), mine, theirs)
        for item in fields(then)
        if isinstance(mine := getattr(then, item.name), np.ndarray)
        and isinstance(theirs := getattr(otherwise, item.name), np.ndarray)
    }
    return replace(otherwise, **changes)


def _unsized(state: DecodeState) -> Flags:
    """[B]: rows in which nothing is placed yet."""
    return np.asarray(~state.placed.any(axis=1))


def _end_probability(state: DecodeState, best: Candidates) -> Reals:
    """[B, G]: that of the likeliest token where it is an end mark, else 0."""
    ends = among(best.tokens, state.prompt.end_marks) & ~np.isnan(best.confidence)
    return np.where(ends, best.confidence, 0.0)


def _sure_ends(state: DecodeState, best: Candidates, cut: float) -> Ints:
    """[B]: how many columns up to the stop are end marks at least `cut` probable, without a gap."""
    sure = _end_probability(state, best)
    ends = ((sure > 0) & (sure >= cut)) | ~state.existing
    tail = np.logical_and.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
    run: Ints = (tail & state.existing).sum(axis=1)
    return run
