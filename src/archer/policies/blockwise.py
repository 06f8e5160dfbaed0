"""Policies that begin anew with every block, and the first of them: Fast-dLLM's caches.

Axes: B rows, L columns.
"""

from __future__ import annotations

import numpy as np
from pydantic.dataclasses import dataclass

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
