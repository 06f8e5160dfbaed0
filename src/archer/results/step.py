"""What the loop yields: one update of every running row of a request, with all that led to it.

Axes: B rows still running, G response columns, C changes of a row's response.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from archer.decoders.base import Decision, State
from archer.errors import NonFinite
from archer.passes.canvas import Canvas, Ints
from archer.passes.logits import Logits, RowLogits
from archer.passes.memory import Memory
from archer.passes.work import Work

ACCEPTED, REPLACED, REMASKED = np.uint8(1), np.uint8(2), np.uint8(4)
"""What happened to a position, as a sum: a token can be accepted and taken back in the same update."""
SHOWN = ("accepted", "replaced", "remasked")
Changes = NDArray[np.void]
"""[C] of `CHANGE`."""
CHANGE = np.dtype(
    [("at", np.int32), ("what", np.uint8), ("token", np.int32), ("confidence", np.float64)]
)


class Kind(StrEnum):
    """How a row got its logits."""

    FULL = "full"
    CACHED = "cached"
    REUSED = "reused"


@dataclass(frozen=True)
class Call:
    """One row's part of one pass."""

    kind: Kind
    fed: int
    """Columns computed."""
    distance: int
    """Response tokens that differed from the anchor when the call was made."""
    seconds: float
    """The row's share of the pass, by columns computed."""
    drift: float | None = None
    """What the policy compared with its limit, where that is not the distance: `surprise` sums nats."""


@dataclass(frozen=True)
class Moment:
    """One update of one row."""

    call: Call
    threshold: float
    stop: int
    """Columns that the response has after it."""
    changes: Changes

    @classmethod
    def of(
        cls,
        call: Call,
        decision: Decision,
        row: int,
        wanted: int,
        stop: int,
        gaps: Ints | None = None,
    ) -> Moment:
        """`row` of a decision; what a rule decodes beyond the `wanted` columns is left out.

        `gaps` says where the columns of the decision stand in the response, where some are given.
        """
        here = np.s_[row, :wanted]
        what = (
            decision.accepted[here] * ACCEPTED
            + decision.replaced[here] * REPLACED
            + decision.remasked[here] * REMASKED
        )
        at = np.flatnonzero(what)
        changes = np.empty(len(at), CHANGE)
        changes["at"], changes["what"] = at if gaps is None else gaps[at], what[at]
        changes["token"] = decision.tokens[here][at]
        changes["confidence"] = decision.confidence[here][at]
        return cls(call, float(decision.threshold[row]), min(stop, wanted), changes)


@dataclass(frozen=True)
class StepRecord:
    """What is kept or sent of a step: everything but logits and memory."""

    rows: tuple[int, ...]
    """Which of the requested rows these are."""
    updates: tuple[int, ...]
    """Of each row, the number of this update, counted from 1."""
    response: Ints
    """The response after the update, row by row, with what is given of it."""
    wanted: int
    """Columns that were asked for of those that the decision is about; a rule may decode more."""
    stops: tuple[int, ...]
    """Columns that each row has after the update."""
    calls: tuple[Call, ...]
    decision: Decision
    gaps: Ints | None = None
    """[G]: where these columns stand in the response, where some of it is given."""

    @cached_property
    def moments(self) -> tuple[Moment, ...]:
        """One per row, packed once."""
        return tuple(
            Moment.of(call, self.decision, index, self.wanted, self.stops[index], self.gaps)
            for index, call in enumerate(self.calls)
        )


@dataclass(frozen=True, repr=False)
class Step(Generic[State]):
    """One update of every running row, with all that led to it."""

    index: int
    rows: tuple[int, ...]
    """Which of the requested rows these are."""
    before: State
    decision: Decision
    after: State
    canvas: Canvas
    logits: Logits
    calls: tuple[Call, ...]
    memory: Memory
    """Live: clone what you keep."""
    work: Work
    control: float
    """Seconds spent on decoder, policy and layout."""
    errors: dict[int, NonFinite]
    """Rows that ended here because their logits were not finite; they are in none of the fields above."""

    def __repr__(self) -> str:
        counts = {name: int(getattr(self.decision, name).sum()) for name in SHOWN}
        changed = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        passes = ", ".join(call.kind.value for call in self.calls)
        return f"Step({self.index}, rows {self.rows}, {passes}: {changed or 'nothing changed'})"

    @cached_property
    def record(self) -> StepRecord:
        """The record of this step, to keep."""
        after = self.after
        return StepRecord(
            rows=self.rows,
            updates=tuple(after.updates),
            response=after.prompt.response(after.response),
            wanted=after.wanted,
            stops=tuple(after.stops.tolist()),
            calls=self.calls,
            decision=self.decision,
            gaps=after.prompt.gaps,
        )

    def with_rows(self, rows: Sequence[RowLogits]) -> Step[State]:
        """The same step with other logits, or with none."""
        return replace(self, logits=Logits(rows, self.logits.answers, self.logits.mask))

    def counted_from(self, first: int) -> Step[State]:
        """The same step of a request whose rows are counted from `first`."""
        if first == 0:
            return self
        rows = tuple(first + row for row in self.rows)
        return replace(self, rows=rows, errors={first + row: e for row, e in self.errors.items()})

    def without_errors(self, sound: Sequence[int], lanes: Sequence[int]) -> Step[State]:
        """The same step with the `sound` rows alone; `lanes` are their rows of the canvas."""
        return replace(
            self,
            rows=tuple(self.rows[row] for row in sound),
            before=self.before.select(sound),
            decision=self.decision.select(sound),
            after=self.after.select(sound),
            canvas=self.canvas.select(lanes),
            logits=self.logits.select(lanes),
            calls=tuple(self.calls[row] for row in sound),
            memory=self.memory.select(lanes),
        )
