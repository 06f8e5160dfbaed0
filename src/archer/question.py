"""A question as the host knows it: what the loop decides by without looking at a device again.

B rows of a state; a decoder may ask several things about each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from archer.canvas import Canvas
from archer.layout import Mask


@dataclass(frozen=True)
class Question:
    """What the next pass is to answer, and the flags of the state that asks, on the host.

    A decoder may ask several things about a row at once (guidance does): its lanes are neighbouring rows
    of the canvas.
    """

    canvas: Canvas
    lanes: int
    asked: Mask
    reads: Mask
    same: Mask
    distance: tuple[int, ...]
    done: Mask
    """Of each row of the state, as `finite` is; the fields above are of each row of the canvas."""
    finite: Mask

    def select(self, rows: Sequence[int]) -> Question:
        lanes = self.lanes_of(rows)
        return Question(
            canvas=self.canvas.select(lanes),
            lanes=self.lanes,
            asked=self.asked[lanes],
            reads=self.reads[lanes],
            same=self.same[lanes],
            distance=tuple(self.distance[lane] for lane in lanes),
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
            asks = self.asked[row].tobytes(), self.reads[row].tobytes()
            like = first.setdefault((groups[row // self.lanes], row % self.lanes, *asks), row)
            if like != row:
                found[row] = like
        return found

    def lanes_of(self, rows: Sequence[int]) -> list[int]:
        return [row * self.lanes + lane for row in rows for lane in range(self.lanes)]
