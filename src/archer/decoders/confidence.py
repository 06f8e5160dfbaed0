"""LLaDA-Confidence: fill the surest masks on a fixed schedule, block by block.

Axes: B rows, G response columns.  Nothing is ever taken back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass

from archer.canvas import Canvas, Prompt
from archer.decoders.base import Decision, DecodeState, blank, leading, whole_block
from archer.errors import BadRequest
from archer.logits import Logits


@dataclass(frozen=True)
class Confidence:
    """A block of B masks is filled in steps * B / G updates, as evenly as integers allow."""

    block: Annotated[int, Field(ge=1)] | None = None
    """Columns decoded together, left to right; the whole response when left out."""
    steps: Annotated[int, Field(ge=1)] | None = None
    """Updates over the whole response; one per token when left out."""
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0

    def start(self, prompt: Prompt, length: int) -> DecodeState:
        self._updates_per_block(length)
        return blank(prompt, length)

    def limit(self, length: int) -> int:
        return self._total(length)

    def canvas(self, state: DecodeState) -> Canvas:
        low, high = self._bounds(state)
        columns = torch.arange(state.length, device=state.response.device)
        reads = state.masked & (columns < high[:, None])
        return Canvas.plain(state.prompt, state.response, torch.stack((low, high), 1), reads)

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        best = logits.sampled(self.temperature, state.prompt.keys, state.updates)
        high = self._bounds(state)[1]
        columns = torch.arange(state.length, device=state.response.device)
        eligible = state.masked & (columns < high[:, None])
        accepted = leading(best.confidence, eligible, self._counts(state))
        response = torch.where(accepted, best.tokens, state.response)
        updates = tuple(update + 1 for update in state.updates)
        total = self._total(state.length)
        done = torch.tensor([update >= total for update in updates], device=response.device)
        after = replace(state, response=response, done=done, updates=updates)
        return after, Decision.accepting(accepted, best)

    def _total(self, length: int) -> int:
        return length if self.steps is None else self.steps

    def _updates_per_block(self, length: int) -> int:
        blocks = length // whole_block(self.block, length)
        total = self._total(length)
        if total % blocks:
            raise BadRequest(
                f"{total} steps cannot be spread evenly over {blocks} blocks. "
                f"Choose steps as a multiple of {blocks}."
            )
        return total // blocks

    def _bounds(self, state: DecodeState) -> tuple[torch.Tensor, torch.Tensor]:
        """Long[B] each: where the current block starts and ends in the response."""
        block = whole_block(self.block, state.length)
        each = self._updates_per_block(state.length)
        last = state.length - block
        starts = [min(update // each * block, last) for update in state.updates]
        low = torch.tensor(starts, device=state.response.device)
        return low, low + block

    def _counts(self, state: DecodeState) -> torch.Tensor:
        """Long[B]: how many masks this update fills."""
        block = whole_block(self.block, state.length)
        each = self._updates_per_block(state.length)
        share, extra = divmod(block, each)
        counts = [share + (update % each < extra) for update in state.updates]
        return torch.tensor(counts, device=state.response.device)
