"""The samplers of the dllm library, with which A2D models were released, and iLLaDA's, which is as simple.

Axes: B rows, G response columns.  LLaDA's schedule, with dllm in shares of its own: each update fills a
rounded part of the masks that are left in the block.  The last block may be short.  Nothing is taken back.

Not reproduced: in later blocks of bd3lm the released code takes an end of text for padding that nobody sees.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, ClassVar, Generic

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from archer.decoders.base import Attention, Decision, DecodeState, Rule, State, blank, grow, leading
from archer.decoders.blocks import until_end
from archer.decoders.scheduled import ended, share_of
from archer.errors import BadRequest
from archer.passes.bounds import MOST_BLOCK, Count, CountOrNone
from archer.passes.canvas import Blocks, Canvas, Flags, Ints, Prompt, among
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


@dataclass(frozen=True)
class Illada(_Dllm[DecodeState]):
    """iLLaDA's `var_generate`: LLaDA's even split within a block, for a canvas to which blocks are appended.

    With `end_think`, the next of these tokens becomes more probable at the first mask of the block, the more
    so the further the answer has got, until all of them stand there one after the other.
    """

    resizes: ClassVar[bool] = True

    end_think: Annotated[tuple[CountOrNone, ...], Field(min_length=1, max_length=16)] | None = None
    """Ids of what ends thinking, such as those of `</think>`; nothing is pressed for where it is left out."""
    end_think_boost: Annotated[float, Field(ge=0, le=1e4)] = 100.0
    """What is added to the logit at the last position of the longest answer."""
    end_think_power: Annotated[float, Field(ge=0, le=64)] = 3.0
    """How slowly that grows with the position."""

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        if self.end_think is None:
            return super().step(state, logits)
        return super().step(state, self._pressing(state, logits, self.end_think))

    def _pressing(self, state: DecodeState, logits: Logits, ending: tuple[int, ...]) -> Logits:
        bounds = self._bounds(state)
        rows = []
        for row, response, (low, high) in zip(logits.rows, state.response, bounds, strict=True):
            at = next((at for at in range(low, high) if response[at] == state.prompt.mask), None)
            token = None if at is None else next_of(ending, response[:at].tolist())
            if at is None or token is None or at not in row.places:
                rows.append(row)
                continue
            values = row.values.clone()
            if token >= values.shape[1]:
                raise BadRequest(f"end_think holds the id {token}, which the model does not know.")
            share = (at + 1) / state.length
            boost = self.end_think_boost * share**self.end_think_power
            values[row.places.index(at), token] += boost
            rows.append(row.with_values(values))
        return logits.changed(rows)

    def plan_of(self, state: DecodeState) -> tuple[Portion, ...]:
        return self.plan(state.length)

    def plan(self, length: int) -> tuple[Portion, ...]:
        each = -(-(self.steps or length) // self.blocks(length))
        bounds = [(low, min(low + self.block, length)) for low in range(0, length, self.block)]
        return tuple(
            Portion(low, high, share_of(high - low, min(each, high - low), index))
            for low, high in bounds
            for index in range(min(each, high - low))
        )


def next_of(sequence: tuple[int, ...], before: list[int]) -> int | None:
    """The token that continues the longest beginning of a sequence; None where all of it stands there."""
    most = len(sequence)
    if any(tuple(before[at : at + most]) == sequence for at in range(len(before) - most + 1)):
        return None
    begun = (
        count for count in range(most - 1, 0, -1) if tuple(before[-count:]) == sequence[:count]
    )
    return sequence[next(begun, 0)]


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
        ended = (among(response, state.prompt.eos) & reached).any(axis=1)
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
