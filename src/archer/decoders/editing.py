"""Token editing as in LLaDA2.1: placed tokens are replaced where the model has become sure of another.

Axes: B rows, G response columns.  Only the current block is edited; nothing goes back to a mask.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from archer.decoders.base import Decision, Rule, leading, whole_block
from archer.decoders.blocks import BlockState
from archer.passes.canvas import Canvas, Flags, Prompt, Scope
from archer.passes.logits import Logits


@dataclass(frozen=True)
class Editing(Rule):
    """Fill masks at `fill`, the surest if there is none; replace a token when another reaches `edit`."""

    fill: Annotated[float, Field(ge=0, le=1)] = 0.95
    """Confidence at which a mask is filled."""
    edit: Annotated[float, Field(ge=0, le=1)] = 0.9
    """Confidence of another token at which a placed one is replaced."""
    block: Annotated[int, Field(ge=1)] | None = None
    """Columns decoded together, left to right; the whole response when left out."""
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """0 takes the likeliest token; above 0, tokens are drawn, the more evenly the higher it is."""

    @property
    def reads(self) -> Scope:
        return Scope.BLOCK

    @property
    def draws(self) -> bool:
        return self.temperature > 0

    def check(self, length: int) -> None:
        whole_block(self.block, length)

    def blocks(self, length: int) -> int:
        return length // whole_block(self.block, length)

    def start(self, prompt: Prompt, length: int) -> BlockState:
        self.check(length)
        return BlockState.begin(prompt, length, self.block)

    def limit(self, length: int) -> int:
        """Two tokens may go on replacing each other: there is no bound in the rule, so this is the guard."""
        return 4 * length

    def settled(self, state: BlockState) -> Flags:
        """Only the current block is edited."""
        return state.finished_blocks

    def canvas(self, state: BlockState) -> Canvas:
        return state.canvas(state.current)

    def step(self, state: BlockState, logits: Logits) -> tuple[BlockState, Decision]:
        """A block is left when an update finds nothing to fill and nothing to replace in it."""
        best, _ = logits.read(logits.sampled(self.temperature, state.prompt.keys, state.updates))
        masked = state.masked & state.current
        surest = leading(best.confidence, masked, 1)
        sure = masked & (best.confidence >= self.fill)
        accepted = np.where(sure.any(axis=1, keepdims=True), sure, surest)
        replaced = (
            state.current
            & ~state.masked
            & (best.tokens != state.response)
            & (best.confidence >= self.edit)
        )
        response = np.where(accepted | replaced, best.tokens, state.response)
        after = state.moved(response, may_leave=~(accepted | replaced).any(axis=1))
        return after, replace(Decision.accepting(accepted, best), replaced=replaced)
