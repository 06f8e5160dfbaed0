"""Policies that begin anew with every block: the caches of Fast-dLLM and dKV-Cache.

Axes: B rows, L columns.  In dKV-Cache a token's keys and values freeze once it has been decoded, and
everything is reloaded now and then.
"""

import numpy as np
from pydantic.dataclasses import dataclass

from archer.passes.bounds import Count, CountOrNone
from archer.passes.canvas import Canvas, Flags, Ints, Scope
from archer.passes.logits import Logits
from archer.passes.memory import Memory, Notes
from archer.policies.base import Policy


class PerBlock(Policy):
    """Base of those that count passes within a block."""

    def start(self, canvas: Canvas) -> Notes:
        return {
            "block": np.full_like(canvas.block, -1),
            "passes": np.zeros(canvas.rows, dtype=np.int64),
        }

    def noted(self, canvas: Canvas, memory: Memory, full: Flags, logits: Logits) -> Notes:
        return {"block": canvas.block, "passes": _in_block(canvas, memory) + 1}

    def passes(self, canvas: Canvas, memory: Memory) -> Ints:
        """[B]: passes that the block has had; 0 without an anchor, too."""
        return np.where(memory.anchored, _in_block(canvas, memory), 0)


def _in_block(canvas: Canvas, memory: Memory) -> Ints:
    same = (canvas.block == memory.notes["block"]).all(axis=1)
    return np.where(same, memory.notes["passes"], 0)


@dataclass(frozen=True)
class Prefix(PerBlock):
    """Everything when a block begins, then from its first column to the end."""

    answers = Scope.BLOCK
    why = "it freezes earlier blocks while a block is decoded"

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        begins: Flags = self.passes(canvas, memory) == 0
        return (np.arange(canvas.columns) >= canvas.block[:, :1]) | begins[:, None]


@dataclass(frozen=True)
class Dual(PerBlock):
    """Everything when a block begins, then the block alone: what precedes and follows it stays frozen."""

    answers = Scope.BLOCK
    why = "it freezes everything outside the block that is being decoded"

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        begins: Flags = self.passes(canvas, memory) == 0
        return canvas.current() | canvas.scratch() | begins[:, None]


@dataclass(frozen=True)
class DkvDecode(PerBlock):
    """Recompute all masks, those of tokens that were taken back too, and tokens decoded since (the delay)."""

    answers = Scope.MASKS
    why = "it freezes a token one pass after it is placed and returns no logits for it"
    counts_passes = True

    reload: Count = 8
    """Everything at passes 0, 1 and every multiple of this within a block; 1 is eager decoding."""

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        index = self.passes(canvas, memory)
        everything: Flags = (index < 2) | (index % self.reload == 0)
        masked = canvas.masked_in(memory.seen) | canvas.masked_in(canvas.tokens)
        return masked | canvas.scratch() | everything[:, None]


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
    """[B, L]: for each centre in turn its `window` nearest masked columns not yet chosen, left first."""
    grown = chosen.copy()
    for row, centre in np.argwhere(centres):
        free = np.flatnonzero(masked[row] & ~grown[row])
        offset = free - centre
        nearest = (2 * np.abs(offset) + (offset > 0)).argsort(kind="stable")[:window]
        grown[row, free[nearest]] = True
    return grown
