"""Decoders on a fixed schedule: fill the surest masks, block by block, and keep them.

Axes: B rows, G response columns.  With `confidence` this is LLaDA's own decoding.  Nothing is taken back.
"""

import functools
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic.dataclasses import dataclass

from archer.decoders.base import Decision, DecodeState, chance, leading
from archer.decoders.blocks import Blockwise, whole_block
from archer.decoders.fill_path import FillPath
from archer.errors import BadRequest
from archer.passes.bounds import Count, Seed
from archer.passes.canvas import Canvas, Flags, Ints, Reals
from archer.passes.logits import Answers, Candidates, Logits

Score = Literal["confidence", "entropy", "margin", "random"]


@dataclass(frozen=True)
class Scheduled(Blockwise[DecodeState]):
    """A block of B masks is filled in steps * B / G updates, as evenly as integers allow."""

    resizes: ClassVar[bool] = True

    steps: Count | None = None
    """Updates over the whole response; one per token when left out."""
    score: Score = "confidence"
    """What "surest" means; `random` draws anew at every update."""

    @property
    def draws(self) -> bool:
        return self.temperature > 0 or self.score == "random"

    @property
    def path(self) -> FillPath:
        by = {"confidence": FillPath.BY_TOKEN, "random": FillPath.BY_CHANCE}
        return by.get(self.score, FillPath.BY_STATE)

    def check(self, length: int) -> None:
        self._updates_per_block(length)

    def limit(self, length: int) -> int:
        return length if self.steps is None else self.steps

    def canvas(self, state: DecodeState) -> Canvas:
        bounds = np.stack(self._bounds(state), axis=1)
        return Canvas.plain(state.prompt, state.response, bounds, self._eligible(state))

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        best, ranked = scored(self.score, logits, self.sampled(state, logits), state)
        accepted = leading(ranked, self._eligible(state), self._counts(state))
        response = np.where(accepted, best.tokens, state.response)
        shorter = state.filled(response) & (state.stops < state.length)
        over = ends_now(state, self.limit(state.length)) | shorter
        return state.advanced(response, over), Decision.accepting(accepted, best)

    def _eligible(self, state: DecodeState) -> Flags:
        """[B, G]: the masks this update may fill."""
        columns = np.arange(state.length)
        return state.masked & (columns < self._bounds(state)[1][:, None])

    def _updates_per_block(self, length: int) -> int:
        blocks, total = self.blocks(length), self.limit(length)
        if total % blocks:
            raise BadRequest(
                f"{total} steps cannot be spread evenly over {blocks} blocks. "
                f"Choose steps as a multiple of {blocks}."
            )
        return total // blocks

    def _bounds(self, state: DecodeState) -> tuple[Ints, Ints]:
        """[B] each: where the current block starts and ends in the response."""
        block = whole_block(self.block, state.length)
        each = self._updates_per_block(state.length)
        last = state.length - block
        starts = [min(update // each * block, last) for update in state.updates]
        low = np.array(starts)
        return low, low + block

    def _counts(self, state: DecodeState) -> Ints:
        """[B]: how many masks this update fills."""
        block = whole_block(self.block, state.length)
        each = self._updates_per_block(state.length)
        counts = [share_of(block, each, update % each) for update in state.updates]
        return np.array(counts)


def share_of(masks: int, updates: int, index: int) -> int:
    """How many of `masks` the update `index` of `updates` fills: an even split, the rest first."""
    share, extra = divmod(masks, updates)
    return share + (index < extra)


def scored(
    kind: Score, logits: Logits, best: Answers, state: DecodeState
) -> tuple[Candidates, Reals]:
    """The answers on the host, and [B, G] how sure each is, higher is surer; NaN without logits."""
    if kind == "entropy":
        candidates, (entropy,) = logits.read(best, logits.entropy)
        return candidates, -entropy
    if kind == "margin":
        candidates, (margin,) = logits.read(best, logits.margin)
        return candidates, margin
    candidates, _ = logits.read(best)
    return candidates, candidates.confidence if kind == "confidence" else chance(state, "order")


@dataclass(frozen=True)
class Ordered(Scheduled):
    """The schedule's counts in the order of a fixed permutation of each block, as dKV-Cache-Greedy has it."""

    resizes: ClassVar[bool] = False

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

    @property
    def path(self) -> FillPath:
        """Every update has its positions."""
        return FillPath.BY_STATE

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


def ended(updates: Sequence[int], total: int) -> Flags:
    """[B]: rows that have made all updates of a fixed plan."""
    return np.array([update >= total for update in updates])


def ends_now(state: DecodeState, total: int) -> Flags:
    """[B]: rows for which this update is the last of a fixed plan."""
    return ended(state.updates, total - 1)
