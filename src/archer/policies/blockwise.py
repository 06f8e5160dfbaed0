"""Fast-dLLM's caches: everything is computed when a block begins, then only from the block on, or only it.

Axes: B rows, L columns.  What lies outside is frozen until the next block begins.
"""

from __future__ import annotations

import numpy as np
from pydantic.dataclasses import dataclass

from archer.passes.canvas import Canvas, Flags, Scope
from archer.passes.memory import Memory
from archer.policies.base import Policy


@dataclass(frozen=True)
class Prefix(Policy):
    """Within a block, recompute from its first column to the end."""

    answers = Scope.BLOCK
    why = "it freezes earlier blocks while a block is decoded"

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        columns = np.arange(canvas.columns)
        return (columns >= canvas.block[:, :1]) | _begins(canvas, memory)


@dataclass(frozen=True)
class Dual(Policy):
    """Within a block, recompute the block alone: what precedes and what follows it stays frozen."""

    answers = Scope.BLOCK
    why = "it freezes everything outside the block that is being decoded"

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        return canvas.current() | canvas.scratch() | _begins(canvas, memory)


def _begins(canvas: Canvas, memory: Memory) -> Flags:
    """[B, 1]: the first pass of a block."""
    return (memory.in_new_block(canvas) | ~memory.anchored)[:, None]
