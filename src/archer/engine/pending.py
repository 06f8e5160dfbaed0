"""The next update of a request before its pass: what is asked, and the facts by which the walk decides.

B rows of a state; a decoder may ask several things about each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from archer.engine.arrays import Flags, Ints
from archer.engine.canvas import Canvas


@dataclass(frozen=True)
class Pending:
    """What the next pass is to answer, and the flags of the state that asks.

    A decoder may ask several things about a row at once (guidance does): its lanes are neighbouring rows
    of the canvas.
    """

    canvas: Canvas
    lanes: int
    asked: Flags
    same: Flags
    distance: Ints
    done: Flags
    """Of each row of the state, as `finite` is; the fields above are of each row of the canvas."""
    finite: Flags

    def select(self, rows: Sequence[int]) -> Pending:
        lanes = self.lanes_of(rows)
        return Pending(
            canvas=self.canvas.select(lanes),
            lanes=self.lanes,
            asked=self.asked[lanes],
            same=self.same[lanes],
            distance=self.distance[lanes],
            done=self.done[list(rows)],
            finite=self.finite[list(rows)],
        )

    def twins(self, groups: Sequence[int]) -> dict[int, int]:
        """Rows of the canvas that ask what an earlier one asks, by row; `groups` tells equal states apart.

        For states at which nothing was placed yet: later ones differ by more than their prompts.
        """
        first: dict[tuple[int, int, bytes, bytes], int] = {}
        found = {}
        for row in range(self.canvas.rows):
            asks = self.asked[row].tobytes(), self.canvas.reads[row].tobytes()
            like = first.setdefault((groups[row // self.lanes], row % self.lanes, *asks), row)
            if like != row:
                found[row] = like
        return found

    def lanes_of(self, rows: Sequence[int]) -> list[int]:
        return [row * self.lanes + lane for row in rows for lane in range(self.lanes)]
