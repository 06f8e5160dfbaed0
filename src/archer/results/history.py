"""What every update did to one row, in so few bytes that each completion can keep it.

Axes: B rows of a decision, G response columns, M updates of a row, C changes of its response in all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archer.decoders.base import Decision
from archer.results.step import Call

ACCEPTED, REPLACED, REMASKED = np.uint8(1), np.uint8(2), np.uint8(4)
"""What happened to a position, as a sum: a token can be accepted and taken back in the same update."""
Changes = NDArray[np.void]
"""[C] of `CHANGE`."""
CHANGE = np.dtype(
    [("at", np.int32), ("what", np.uint8), ("token", np.int32), ("confidence", np.float64)]
)


@dataclass(frozen=True)
class Moment:
    """One update of one row."""

    call: Call
    threshold: float
    changes: Changes

    @classmethod
    def of(cls, call: Call, decision: Decision, row: int, wanted: int) -> Moment:
        """`row` of a decision; what a rule decodes beyond the `wanted` columns is left out."""
        here = np.s_[row, :wanted]
        what = (
            decision.accepted[here] * ACCEPTED
            + decision.replaced[here] * REPLACED
            + decision.remasked[here] * REMASKED
        )
        at = np.flatnonzero(what)
        changes = np.empty(len(at), CHANGE)
        changes["at"], changes["what"] = at, what[at]
        changes["token"] = decision.tokens[here][at]
        changes["confidence"] = decision.confidence[here][at]
        return cls(call, float(decision.threshold[row]), changes)


@dataclass(frozen=True, eq=False, repr=False)
class History:
    """All updates of a row.  It has no tokens that were written without an update, and no logits."""

    calls: tuple[Call, ...]
    thresholds: tuple[float, ...]
    ends: tuple[int, ...]
    """[M]: how many of the changes belong to this update and to those before."""
    changes: Changes

    @classmethod
    def of(cls, moments: Sequence[Moment]) -> History:
        found = [each.changes for each in moments]
        return cls(
            calls=tuple(each.call for each in moments),
            thresholds=tuple(each.threshold for each in moments),
            ends=tuple(np.cumsum([len(each) for each in found]).tolist()),
            changes=np.frombuffer(b"".join(each.tobytes() for each in found), CHANGE),
        )

    def __iter__(self) -> Iterator[Moment]:
        begins = (0, *self.ends)
        for call, threshold, begin, end in zip(
            self.calls, self.thresholds, begins, self.ends, strict=False
        ):
            yield Moment(call, threshold, self.changes[begin:end])

    def __len__(self) -> int:
        return len(self.calls)
