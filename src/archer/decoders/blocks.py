"""Decoders that fill a block until no mask is left in it, then move to the next.

Axes: B rows, G response columns.  What they share is the setting, the state and the bookkeeping.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass as plain_dataclass
from functools import cached_property
from typing import ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from archer.decoders.base import DecodeState, Rule, State, blank, finished, grow, read_only
from archer.errors import BadRequest
from archer.passes.bounds import Tokens
from archer.passes.canvas import Canvas, Flags, Ints, Prompt, among

Number = TypeVar("Number", np.bool_, np.float64)


@dataclass(frozen=True)
class Blockwise(Rule[State]):
    """A rule whose user says how many columns are decoded together."""

    block: Tokens | None = None
    """Columns decoded together, left to right; the whole response when left out."""

    ragged: ClassVar[bool] = False
    """Whether the last block may be shorter than the others."""

    def check(self, length: int) -> None:
        whole_block(self.block, length, ragged=self.ragged)

    def blocks(self, length: int) -> int:
        return -(-length // whole_block(self.block, length, ragged=self.ragged))


@plain_dataclass(frozen=True)
class BlockState(DecodeState):
    """A response and the block that is being decoded."""

    block: Ints
    """[B]: index of the block."""
    size: int
    """Columns per block."""

    @classmethod
    def begin(
        cls, prompt: Prompt, length: int, block: int | None, *, ragged: bool = False
    ) -> BlockState:
        base = blank(prompt, length)
        first = np.zeros(len(base.response), dtype=np.int64)
        size = whole_block(block, length, ragged=ragged)
        return grow(BlockState, base, block=first, size=size)

    @property
    def current(self) -> Flags:
        """[B, G]: the columns of the block."""
        columns = np.arange(self.length)
        low = self.block[:, None] * self.size
        return (columns >= low) & (columns < low + self.size)

    @cached_property
    def reached(self) -> Flags:
        """[B, G]: the columns of the block and of all before it; read-only."""
        return read_only(np.arange(self.length) < (self.block[:, None] + 1) * self.size)

    def within(self, values: NDArray[Number], *, beyond: float = False) -> NDArray[Number]:
        """[B, G]: the same in the columns `reached`, and `beyond` in blocks that are still to come."""
        if self.size >= self.length:
            return values
        return np.where(self.reached, values, np.asarray(beyond, dtype=values.dtype))

    @property
    def in_last(self) -> Flags:
        """[B]: no block comes after this one."""
        last: Flags = (self.block + 1) * self.size >= self.length
        return last

    @property
    def finished_blocks(self) -> Flags:
        """[B, G]: the columns of blocks that were left; all of a row that is done."""
        earlier = np.arange(self.length) < self.block[:, None] * self.size
        return earlier | finished(self)

    def canvas(self, reads: Flags) -> Canvas:
        """The plain question about the columns `reads` [B, G]."""
        first = self.block[:, None] * self.size
        bounds = np.concatenate((first, np.minimum(first + self.size, self.length)), axis=1)
        return Canvas.plain(self.prompt, self.response, bounds, reads)

    def moved(self, response: Ints, may_leave: Flags | None = None) -> Self:
        """The state after an update wrote `response`; a full block is left where it `may_leave` [B]."""
        full = self.filled(response, self.current)
        leave = full if may_leave is None else full & may_leave
        last = self.in_last
        return self.advanced(response, leave & last, block=self.block + (leave & ~last))


def whole_block(block: int | None, length: int, *, ragged: bool = False) -> int:
    """The block size to use: the whole response unless one is given, which must divide it.

    Unless the blocks are `ragged`: then the last one is what is left.
    """
    if block is None:
        return length
    if ragged:
        return min(block, length)
    if length % block:
        raise BadRequest(
            f"A block of {block} does not divide the length {length}. "
            f"Choose a block that does, or leave it out to decode the response as one block."
        )
    return block


def until_end(response: Ints, ends: Sequence[int]) -> Ints:
    """[G] -> the same up to and with the first of `ends`."""
    places = np.flatnonzero(among(response, ends))
    return response[: places[0] + 1] if len(places) else response
