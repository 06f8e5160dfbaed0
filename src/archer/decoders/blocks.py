"""Decoders that fill a block until no mask is left in it, then move to the next.

Axes: B rows, G response columns.  What they share is the state and the bookkeeping, not a rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from archer.decoders.base import DecodeState, blank, finished, grow, whole_block
from archer.passes.canvas import Canvas, Flags, Ints, Prompt


@dataclass(frozen=True)
class BlockState(DecodeState):
    """A response and the block that is being decoded."""

    block: Ints
    """[B]: index of the block."""
    size: int
    """Columns per block."""

    @classmethod
    def begin(cls, prompt: Prompt, length: int, block: int | None) -> BlockState:
        base = blank(prompt, length)
        first = np.zeros(len(base.response), dtype=np.int64)
        return grow(BlockState, base, block=first, size=whole_block(block, length))

    @property
    def current(self) -> Flags:
        """[B, G]: the columns of the block."""
        columns = np.arange(self.length)
        low = self.block[:, None] * self.size
        return (columns >= low) & (columns < low + self.size)

    @property
    def finished_blocks(self) -> Flags:
        """[B, G]: the columns of blocks that were left; all of a row that is done."""
        earlier = np.arange(self.length) < self.block[:, None] * self.size
        return earlier | finished(self)

    def canvas(self, reads: Flags) -> Canvas:
        """The plain question about the columns `reads` [B, G]."""
        bounds = np.stack((self.block * self.size, (self.block + 1) * self.size), axis=1)
        return Canvas.plain(self.prompt, self.response, bounds, reads)

    def moved(self, response: Ints, may_leave: Flags | None = None) -> Self:
        """The state after an update wrote `response`; a block without masks is left.

        Where `may_leave` [B] is false the row stays in its block although it has no masks.
        """
        unfilled = ((response == self.prompt.mask) & self.current).any(axis=1)
        leave = ~unfilled if may_leave is None else ~unfilled & may_leave
        last = self.block == self.length // self.size - 1
        return replace(
            self,
            response=response,
            done=leave & last,
            updates=tuple(update + 1 for update in self.updates),
            block=self.block + (leave & ~last),
        )
