"""Token editing as in LLaDA2.1: placed tokens are replaced where the model has become sure of another.

Axes: B rows, G response columns.  Only the current block is edited; nothing goes back to a mask.
"""

from typing import ClassVar

import numpy as np
from pydantic.dataclasses import dataclass

from archer.decoders.base import Decision, above_or_surest
from archer.decoders.blocks import BlockState, Blockwise
from archer.passes.bounds import Share
from archer.passes.canvas import Canvas, Flags, Prompt, Scope
from archer.passes.logits import Logits


@dataclass(frozen=True)
class Editing(Blockwise[BlockState]):
    """Fill masks at `fill`, the surest if there is none; replace a token when another reaches `edit`."""

    resizes: ClassVar[bool] = True

    fill: Share = 0.95
    """Confidence at which a mask is filled."""
    edit: Share = 0.9
    """Confidence of another token at which a placed one is replaced."""

    @property
    def reads(self) -> Scope:
        return Scope.BLOCK

    def begin(self, prompt: Prompt, length: int) -> BlockState:
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
        best, _ = logits.read(self.sampled(state, logits))
        masked = state.masked & state.current
        sure = masked & (best.confidence >= self.fill)
        accepted = above_or_surest(sure, best.confidence, masked, 1)
        replaced = (
            state.current
            & state.placed
            & (best.tokens != state.response)
            & (best.confidence >= self.edit)
        )
        response = np.where(accepted | replaced, best.tokens, state.response)
        after = state.moved(response, may_leave=~(accepted | replaced).any(axis=1))
        return after, Decision.accepting(accepted, best, replaced=replaced)
