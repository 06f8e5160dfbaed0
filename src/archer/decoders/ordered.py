"""Decoding in an order drawn beforehand: what dKV-Cache-Greedy runs on.

Axes: B rows, G response columns.  Only the columns that come next are read.
"""

from __future__ import annotations

import functools

import numpy as np
import torch
from pydantic.dataclasses import dataclass

from archer.decoders.base import DecodeState, whole_block
from archer.decoders.scheduled import Scheduled, share_of
from archer.errors import BadRequest
from archer.passes.bounds import Seed
from archer.passes.canvas import Flags


@dataclass(frozen=True)
class Ordered(Scheduled):
    """The schedule's counts, the positions of a fixed permutation of each block."""

    order_seed: Seed = 42
    """One generator per problem draws one permutation per block: independent of prompt, batch and device."""
    order: tuple[tuple[int, ...], ...] | None = None
    """The permutations themselves, one per block, in response positions; drawn when left out."""

    def check(self, length: int) -> None:
        block = whole_block(self.block, length)
        if self.order is not None:
            as_long = sum(map(len, self.order)) == length
            if not as_long or [tuple(sorted(part)) for part in self.order] != [
                tuple(range(low, low + block)) for low in range(0, length, block)
            ]:
                raise BadRequest(
                    f"The order must be one permutation per block: {length // block} lists, "
                    f"each with the {block} positions of its block."
                )
        super().check(length)

    def permutations(self, length: int) -> tuple[tuple[int, ...], ...]:
        """One per block, in response positions."""
        if self.order is not None:
            return self.order
        return _drawn(self.order_seed, whole_block(self.block, length), length)

    def _eligible(self, state: DecodeState) -> Flags:
        """[B, G]: exactly the positions of this update."""
        block = whole_block(self.block, state.length)
        each = self._updates_per_block(state.length)
        orders = self.permutations(state.length)
        chosen = np.zeros(state.response.shape, dtype=np.bool_)
        for row, update in enumerate(state.updates):
            index, inside = divmod(update, each)
            if index < len(orders):
                first = sum(share_of(block, each, earlier) for earlier in range(inside))
                count = share_of(block, each, inside)
                chosen[row, list(orders[index][first : first + count])] = True
        return chosen


@functools.lru_cache(maxsize=64)
def _drawn(seed: int, block: int, length: int) -> tuple[tuple[int, ...], ...]:
    """Drawn once however many updates ask."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(
        tuple((low + torch.randperm(block, generator=generator)).tolist())
        for low in range(0, length, block)
    )
