"""dKV-Cache: a token's keys and values freeze once it has been decoded; everything is reloaded now and then.

Axes: B rows, L columns.  Passes are counted within a block.
"""

from __future__ import annotations

import numpy as np
from pydantic.dataclasses import dataclass

from archer.passes.bounds import Count, CountOrNone
from archer.passes.canvas import Canvas, Flags, Scope
from archer.passes.memory import Memory
from archer.policies.blockwise import PerBlock


@dataclass(frozen=True)
class DkvDecode(PerBlock):
    """Recompute what had nothing placed at the last pass: all masks, and tokens decoded since (the delay)."""

    answers = Scope.MASKS
    why = "it freezes a token one pass after it is placed and returns no logits for it"
    counts_passes = True

    reload: Count = 8
    """Everything at passes 0, 1 and every multiple of this within a block; 1 is eager decoding."""

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        index = self.passes(canvas, memory)
        everything: Flags = (index < 2) | (index % self.reload == 0)
        return canvas.masked_in(memory.seen) | canvas.scratch() | everything[:, None]


@dataclass(frozen=True)
class DkvGreedy(PerBlock):
    """Recompute what is read next, what has just changed, and a window of masks around the former."""

    answers = Scope.RESPONSE
    counts_passes = True

    reload: Count = 2
    """Everything at every multiple of this within a block; 1 is eager decoding."""
    window: CountOrNone = 4
    """Neighbouring masks recomputed with each column that is read."""

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        everything: Flags = self.passes(canvas, memory) % self.reload == 0
        read = canvas.reads | canvas.scratch()
        chosen = read | (canvas.tokens != memory.seen)
        masked = canvas.masked_in(memory.seen)
        return _with_neighbours(chosen, canvas.reads, masked, self.window) | everything[:, None]


def _with_neighbours(chosen: Flags, centres: Flags, masked: Flags, window: int) -> Flags:
    """[B, L]: for each centre in turn, add its `window` nearest masked columns not yet chosen.

    Left comes before right at equal distance.
    """
    grown = chosen.copy()
    for row, centre in np.argwhere(centres):
        free = np.flatnonzero(masked[row] & ~grown[row])
        offset = free - centre
        nearest = (2 * np.abs(offset) + (offset > 0)).argsort(kind="stable")[:window]
        grown[row, free[nearest]] = True
    return grown
