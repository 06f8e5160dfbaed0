"""What the loop yields: one update of every running row of a request, with all that led to it.

Axes: B rows still running.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Generic

from archer.decoders.base import Decision, State
from archer.errors import NonFinite
from archer.passes.canvas import Canvas
from archer.passes.logits import Logits, RowLogits
from archer.passes.memory import Memory
from archer.passes.work import Work


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


@dataclass(frozen=True)
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
        return Step(
            index=self.index,
            rows=tuple(self.rows[row] for row in sound),
            before=self.before.select(sound),
            decision=self.decision.select(sound),
            after=self.after.select(sound),
            canvas=self.canvas.select(lanes),
            logits=self.logits.select(lanes),
            calls=tuple(self.calls[row] for row in sound),
            memory=self.memory.select(lanes),
            work=self.work,
            control=self.control,
            errors=self.errors,
        )
