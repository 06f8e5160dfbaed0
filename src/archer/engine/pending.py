"""The next update of a request before its pass: what is asked, and the facts by which the walk decides.

B rows of a state; a decoder may ask several things about each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from archer.decoders.base import DecodeState
from archer.errors import Incompatible, Stuck
from archer.passes import layout
from archer.passes.arrays import Flags, Ints
from archer.passes.canvas import Canvas


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

    def whole(self) -> tuple[bool, ...]:
        """Rows of the canvas that ask for every column they have and can see."""
        canvas = self.canvas
        existing = np.arange(canvas.columns) >= np.array(canvas.starts)[:, None]
        left_out = canvas.everything() & existing & ~self.asked
        return tuple(np.logical_not(left_out.any(axis=1)).tolist())

    @property
    def rests(self) -> bool:
        """Some column keeps what a pass after the anchor gave it, and the next one will not make it again."""
        resting = self.canvas.resting
        return resting is not None and bool((resting & ~self.asked).any())

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


def refuse_impossible(pending: Pending, decoder: str, policy: str, *, shift: bool) -> None:
    """Raise where a model could not answer, or a decoder would read what is not there."""
    canvas = pending.canvas
    if shift and canvas.columns > canvas.response.stop:
        raise Incompatible(
            f"{decoder} asks about extra columns at repeated positions, which has "
            "no meaning for a model whose logits are shifted by one. Use it with a LLaDA model."
        )
    if layout.unanswered(pending.asked, canvas.reads).any():
        raise Incompatible(
            f"{decoder} reads logits of columns that {policy} does not recompute. "
            "Choose a cache that recomputes the whole response, such as archer."
        )


def refuse_endless(state: DecodeState, decoder: str, limit: int) -> None:
    """Raise where a rule has made all updates that it is allowed and is not done."""
    if max(state.updates) >= limit:
        raise Stuck(
            f"{decoder} has not finished after {limit} updates of a response "
            f"of {state.length}, the most it is allowed. If it edits tokens, raise its threshold `edit`; "
            "otherwise this is a fault of the decoder: please report it."
        )
