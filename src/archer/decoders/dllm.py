"""The samplers of the dllm library, with which A2D models were released.

Axes: B rows, G response columns.  LLaDA's schedule with shares of its own: each update fills a rounded part
of the masks that are left in the block.  The last block may be short.  Nothing is taken back.

Not reproduced: in later blocks of bd3lm the released code takes an end of text for padding that nobody sees.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Generic

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from archer.decoders.base import (
    Attention,
    Decision,
    DecodeState,
    Rule,
    State,
    blank,
    ended,
    grow,
    leading,
    until_end,
)
from archer.errors import BadRequest
from archer.passes.bounds import MOST_BLOCK, Count
from archer.passes.canvas import Blocks, Canvas, Flags, Ints, Prompt
from archer.passes.logits import Logits


@plain_dataclass(frozen=True)
class Portion:
    """One update of the schedule."""

    low: int
    """Where its block begins in the response."""
    high: int
    fills: int
    """Masks that it fills."""


@dataclass(frozen=True)
class _Dllm(Rule[State], Generic[State]):
    """What both samplers share; `_over` says where a row ends before its schedule does."""

    block: Annotated[int, Field(ge=1, le=MOST_BLOCK)] = 32
    """Columns decoded together, left to right; the last block may be shorter."""
    steps: Count | None = None
    """Updates over the whole response, rounded up to whole updates per block; one per token when left out."""

    def check(self, length: int) -> None:
        if self.steps is not None and self.steps < self.blocks(length):
            raise BadRequest(
                f"{self.steps} steps are fewer than the {self.blocks(length)} blocks of a response of "
                f"{length}. Choose more steps, or a larger block."
            )

    def blocks(self, length: int) -> int:
        return -(-length // self.block)

    def limit(self, length: int) -> int:
        """Every update fills a mask."""
        return length

    def plan(self, length: int) -> tuple[Portion, ...]:
        """Every update of a response of this length."""
        return _plan(length, self.block, self.steps or length)

    def plan_of(self, state: State) -> tuple[Portion, ...]:
        """The same where text is given behind a gap: blocks are counted from the first token of the prompt.

        So a block may hold few masks or none, and the updates are spread over all blocks alike.
        """
        prompt = state.prompt
        if prompt.gaps is None or prompt.given is None:
            return self.plan(state.length)
        columns = prompt.columns + len(prompt.given)
        places = tuple((prompt.columns + prompt.gaps).tolist())
        return _plan_among_given(places, columns, self.block, self.steps or state.length)

    def canvas(self, state: State) -> Canvas:
        return Canvas.plain(
            state.prompt, state.response, self._bounds(state), self._eligible(state)
        )

    def step(self, state: State, logits: Logits) -> tuple[State, Decision]:
        best, _ = logits.read(self.sampled(state, logits))
        counts = np.array([each.fills for each in self._portions(state)])
        accepted = leading(best.confidence, self._eligible(state), counts)
        response = np.where(accepted, best.tokens, state.response)
        last = ended([update + 1 for update in state.updates], len(self.plan_of(state)))
        return state.advanced(response, last | self._over(state, response)), Decision.accepting(
            accepted, best
        )

    def _portions(self, state: State) -> list[Portion]:
        """Of each row its next one; of rows that are done the last."""
        plan = self.plan_of(state)
        return [plan[min(update, len(plan) - 1)] for update in state.updates]

    def _bounds(self, state: State) -> Ints:
        """[B, 2]: where the block begins and ends."""
        return np.array([(each.low, each.high) for each in self._portions(state)])

    def _eligible(self, state: State) -> Flags:
        """[B, G]: the masks of the block."""
        columns, bounds = np.arange(state.length), self._bounds(state)
        return state.masked & (columns >= bounds[:, :1]) & (columns < bounds[:, 1:])

    def _over(self, state: State, response: Ints) -> Flags:
        """[B]: rows for which this update is the last although the schedule goes on."""
        return np.zeros(len(response), dtype=np.bool_)


@dataclass(frozen=True)
class A2D(_Dllm[DecodeState]):
    """dllm's MDLM sampler: the surest masks of a block, the whole response in view."""


@plain_dataclass(frozen=True)
class EndingState(DecodeState):
    """A response that may end before its last block is decoded."""

    def result(self, row: int) -> Ints:
        """Up to and with the first end of text."""
        return until_end(self.response[row], self.prompt.eos)


@dataclass(frozen=True)
class Bd3lm(_Dllm[EndingState]):
    """dllm's BD3LM sampler: block by block, and none after a block with an end of text.

    Blocks are counted back from the prompt's end, also in the prompt: the response begins with a whole one.
    The block is also the attention rule: a column sees the blocks up to its own.
    """

    block: Annotated[int, Field(ge=1, le=MOST_BLOCK)] = 32
    """Columns per block, left to right; what the model was trained with by default."""

    attention = Attention.BLOCK_CAUSAL

    def begin(self, prompt: Prompt, length: int) -> EndingState:
        return grow(EndingState, blank(prompt, length))

    def canvas(self, state: EndingState) -> Canvas:
        return replace(super().canvas(state), attention=Blocks(self.block, from_response=True))

    def _over(self, state: EndingState, response: Ints) -> Flags:
        reached = np.arange(state.length) < self._bounds(state)[:, 1:]
        ended = (np.isin(response, state.prompt.eos) & reached).any(axis=1)
        over: Flags = state.filled(response, reached) & ended
        return over


@functools.lru_cache(maxsize=64)
def _plan(length: int, block: int, steps: int) -> tuple[Portion, ...]:
    each = -(-steps // -(-length // block))
    return tuple(
        Portion(low, min(low + block, length), count)
        for low in range(0, length, block)
        for count in shares(min(block, length - low), each)
    )


@functools.lru_cache(maxsize=64)
def _plan_among_given(
    places: tuple[int, ...], columns: int, block: int, steps: int
) -> tuple[Portion, ...]:
    """`places` are the positions of the masks among all `columns`."""
    each = -(-steps // -(-columns // block))
    bounds = [bisect_left(places, first) for first in range(0, columns + block, block)]
    return tuple(
        Portion(low, high, count)
        for low, high in pairwise(bounds)
        for count in shares(high - low, each)
    )


def shares(masks: int, steps: int) -> list[int]:
    """How many of `masks` each of `steps` updates fills; updates that fill none are left out.

    Of the masks left it is the part that the linear schedule's time gives, rounded half to even.  The
    released code computes that part in float32, which decides many halves.
    """
    quotas, left = [], masks
    one = np.float32(1)
    for step in range(steps, 0, -1):
        now, then = np.float32(step / steps), np.float32((step - 1) / steps)
        kept = (one - (one - then)) / (one - (one - now))
        count = min(left, round(left * float(one - kept)))
        left -= count
        if count:
            quotas.append(count)
    return quotas
