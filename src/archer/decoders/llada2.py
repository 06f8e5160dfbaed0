"""The released samplers of LLaDA2 and SDAR, block by block; LLaDA2.1's also edits the current block.

Axes: B rows, G response columns.

Blocks are counted from the first token of the prompt, so the first one may begin with prompt tokens and the
last one may reach beyond the length that was asked for: all of it is decoded, what is too much is cut off.
The block is also the attention rule, as in the released code: a column sees the blocks up to its own.

Not reproduced: writing the mask id (here it is never a candidate, though its probability counts: confidences
are the released ones), counting an end id of the prompt as one of the response, and the early 2.0 code that
draws tokens at temperature 0.
"""

from __future__ import annotations

from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from archer.decoders.base import (
    Attention,
    Decision,
    DecodeState,
    Rule,
    above_or_surest,
    blank,
    grow,
    kept,
    leading,
)
from archer.decoders.blocks import until_end
from archer.decoders.nucleus import drawn, truncated
from archer.decoders.scheduled import share_of
from archer.errors import BadRequest
from archer.passes.bounds import MOST_BLOCK, Count, CountOrNone, Share
from archer.passes.canvas import Blocks, Canvas, Flags, Ints, Prompt, Scope, among
from archer.passes.logits import Candidates, Logits


@plain_dataclass(frozen=True)
class AbsoluteState(DecodeState):
    """A response decoded in blocks that are counted from the prompt's first token."""

    block: Ints
    """[B]: index of the block."""
    size: int
    """Columns per block."""
    quota: int
    """Columns that were asked for; the response has as many more as the last block needs."""
    inside: Ints
    """[B]: what the rule counts within a block."""
    ends: tuple[int, ...]
    """What ends a response, for the rule."""

    @classmethod
    def begin(cls, prompt: Prompt, length: int, size: int, ends: tuple[int, ...]) -> AbsoluteState:
        base = blank(prompt, _end(prompt, length, size) - prompt.columns)
        block = np.full(prompt.rows, prompt.columns // size)
        return grow(
            AbsoluteState,
            base,
            block=block,
            size=size,
            quota=length,
            inside=np.zeros_like(block),
            ends=ends,
        )

    @property
    def wanted(self) -> int:
        return self.quota

    def result(self, row: int) -> Ints:
        """As the released code returns it: what was asked for, up to and with the first end of text."""
        return until_end(self.response[row, : self.quota], self.ends)

    @property
    def bounds(self) -> Ints:
        """[B, 2]: where the block begins and ends in the response."""
        low = self.block * self.size - self.prompt.columns
        return np.stack((low.clip(0), low + self.size), axis=1)

    @property
    def current(self) -> Flags:
        """[B, G]: the response columns of the block."""
        columns, bounds = np.arange(self.length), self.bounds
        return (columns >= bounds[:, :1]) & (columns < bounds[:, 1:])

    @property
    def last(self) -> Flags:
        """[B]: the row is in its last block."""
        last: Flags = (self.block + 1) * self.size == _end(self.prompt, self.quota, self.size)
        return last

    def canvas(self, reads: Flags) -> Canvas:
        """The question about the columns `reads` [B, G], under the rule that the block gives."""
        plain = Canvas.plain(self.prompt, self.response, self.bounds, reads)
        return replace(plain, attention=Blocks(self.size))

    def moved(self, response: Ints, leave: Flags, stop: Flags, inside: Ints) -> Self:
        """The state after an update wrote `response`; rows `leave` their block, or `stop` for good."""
        return self.advanced(
            response,
            stop | (leave & self.last),
            block=self.block + (leave & ~self.last),
            inside=np.where(leave, 0, inside),
        )

    def ended_so_far(self, response: Ints) -> Flags:
        """[B, G]: ends of text up to the end of the block."""
        reached = np.arange(self.length) < self.bounds[:, 1:]
        return among(response, self.ends) & reached


def _end(prompt: Prompt, length: int, size: int) -> int:
    """One past the last position, on a block's end."""
    return -(-(prompt.columns + length) // size) * size


@dataclass(frozen=True)
class _Sampler(Rule[AbsoluteState]):
    """What both versions share."""

    block: Annotated[int, Field(ge=1, le=MOST_BLOCK)] = 32
    """Columns per block, counted from the prompt's first token; the models were trained with 32."""
    threshold: Share = 0.95
    """Masks with more confidence than this are filled."""
    eos_early_stop: bool = False
    """Stop at an end of text instead of filling what follows it."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Only tokens within this share of probability are drawn; all of them when left out."""
    top_k: Count | None = None
    """Only this many of the likeliest tokens are drawn; all of them when left out."""

    attention = Attention.BLOCK_CAUSAL

    def blocks(self, length: int) -> int:
        """At most: the first may begin with prompt tokens."""
        return -(-length // self.block) + 1

    def begin(self, prompt: Prompt, length: int) -> AbsoluteState:
        return AbsoluteState.begin(prompt, length, self.block, prompt.eos)

    def _candidates(self, state: AbsoluteState, logits: Logits) -> Candidates:
        if self.temperature == 0:
            return logits.read(logits.greedy)[0]
        cut = truncated(
            logits,
            self.temperature,
            self.top_p,
            self.top_k,
            top_k_first=True,
            mask_weighs=True,
        )
        return cut.read(drawn(cut, state, self.temperature))[0]

    def _filled(self, best: Candidates, masked: Flags, least: Ints | int) -> Flags:
        """[B, G]: the masks above the threshold, or where these are too few the `least` [B] surest."""
        sure = masked & (best.confidence > self.threshold)
        return above_or_surest(sure, best.confidence, masked, least)


@dataclass(frozen=True)
class LLaDA2(_Sampler):
    """LLaDA2.0: per update the masks above a threshold, at least the schedule's share of a block.

    A block that holds an end of text is the last one.  With `eos_early_stop` an end of text stops the row as
    soon as no mask precedes it.
    """

    steps: Count = 32
    """Updates per block at most."""
    minimal_topk: Count = 1
    """Caps the steps at length / minimal_topk."""

    def check(self, length: int) -> None:
        if self.minimal_topk > length:
            raise BadRequest(
                f"minimal_topk = {self.minimal_topk} leaves no step for a response of {length}. "
                f"Choose minimal_topk at most {length}, or a longer response."
            )

    def limit(self, length: int) -> int:
        return (length // self.block + 2) * max(self.steps, self.block)

    def canvas(self, state: AbsoluteState) -> Canvas:
        return state.canvas(state.masked & state.current)

    def step(self, state: AbsoluteState, logits: Logits) -> tuple[AbsoluteState, Decision]:
        best = self._candidates(state, logits)
        accepted = self._filled(best, state.masked & state.current, self._shares(state))
        response = np.where(accepted, best.tokens, state.response)
        left = state.masked_in(response)
        leave = state.filled(response, state.current)
        ended = state.ended_so_far(response)
        stop = leave & ended.any(axis=1)
        if self.eos_early_stop:
            fresh = (accepted & ended).any(axis=1)
            stop |= fresh & (_first(ended) < _first(left))
        after = state.moved(response, leave, stop, state.inside + 1)
        return after, Decision.accepting(accepted, best)

    def _shares(self, state: AbsoluteState) -> Ints:
        """[B]: masks that this update fills at least."""
        steps = min(self.steps, state.quota // self.minimal_topk)
        counts = [share_of(self.block, steps, index) for index in state.inside.tolist()]
        return np.array(counts)


@dataclass(frozen=True)
class LLaDA2Edit(_Sampler):
    """LLaDA2.1: fill masks and replace placed tokens of the block in one update, from the same logits.

    A block is left when an update without masks replaces nothing, or when `max_post_steps` such updates are
    used up.  With `eos_early_stop` a block that holds an end of text is the last one.
    """

    editing_threshold: Share = 0.9
    """A placed token is replaced where another has more confidence than this; 0 replaces every other one."""
    max_post_steps: CountOrNone = 16
    """Updates of a block after its last mask is gone."""
    num_to_transfer: Count = 1
    """The fewest masks filled per update."""

    @property
    def reads(self) -> Scope:
        return Scope.BLOCK

    def settled(self, state: AbsoluteState) -> Flags:
        """Only the current block is edited."""
        earlier = np.arange(state.length) < state.bounds[:, :1]
        return kept(state) & (earlier | state.done[:, None])

    def limit(self, length: int) -> int:
        """Each update with masks fills one, and those without are counted."""
        return (length // self.block + 2) * (self.block + self.max_post_steps)

    def canvas(self, state: AbsoluteState) -> Canvas:
        return state.canvas(state.current)

    def step(self, state: AbsoluteState, logits: Logits) -> tuple[AbsoluteState, Decision]:
        best = self._candidates(state, logits)
        masked = state.masked & state.current
        accepted = self._filled(best, masked, self.num_to_transfer)
        replaced = (
            state.current
            & state.placed
            & (best.tokens != state.response)
            & (best.confidence > self.editing_threshold)
        )
        response = np.where(accepted | replaced, best.tokens, state.response)
        full = state.filled(response, state.current)
        settled = ~masked.any(axis=1) & ~replaced.any(axis=1)
        inside = state.inside + full
        leave = settled | (inside > self.max_post_steps)
        stop = leave & state.ended_so_far(response).any(axis=1) & self.eos_early_stop
        after = state.moved(response, leave, stop, inside)
        return after, Decision.accepting(accepted, best, replaced=replaced)


@dataclass(frozen=True)
class Sdar(_Sampler):
    """SDAR: per update the schedule's share of a block, or all masks above a threshold if these are more.

    A block that holds an end of text or of a turn is the last one.  Released, tokens are always drawn, at
    temperature 1; at 0 the likeliest is taken, as sure as it is.  Not reproduced: where the prompt leaves
    fewer masks in a block than the schedule fills, the released code overwrites tokens that stand there.
    """

    block: Annotated[int, Field(ge=1, le=MOST_BLOCK)] = 4
    """Columns per block, counted from the prompt's first token; the model's own by default."""
    threshold: Share = 0.85
    """Masks with more confidence than this are filled, with `dynamic`."""
    steps: Count | None = None
    """Updates per block at most; one per column when left out."""
    strategy: Literal["dynamic", "static", "sequential"] = "dynamic"
    """dynamic fills what is sure enough, static the schedule's share, sequential the same from the left."""
    eos_early_stop: bool = True
    """Stop after a block with an end instead of filling what follows it."""

    def begin(self, prompt: Prompt, length: int) -> AbsoluteState:
        return AbsoluteState.begin(prompt, length, self.block, (*prompt.eos, *prompt.ends))

    def limit(self, length: int) -> int:
        return (length // self.block + 2) * max(self.steps or 1, self.block)

    def canvas(self, state: AbsoluteState) -> Canvas:
        return state.canvas(state.masked & state.current)

    def step(self, state: AbsoluteState, logits: Logits) -> tuple[AbsoluteState, Decision]:
        best = self._candidates(state, logits)
        masked = state.masked & state.current
        shares = [share_of(self.block, self.steps or self.block, at) for at in state.inside]
        if self.strategy == "sequential":
            accepted = leading(
                -np.arange(state.length) + np.zeros(masked.shape), masked, np.array(shares)
            )
        elif self.strategy == "static":
            accepted = leading(best.confidence, masked, np.array(shares))
        else:
            accepted = self._filled(best, masked, np.array(shares))
        response = np.where(accepted, best.tokens, state.response)
        leave = state.filled(response, state.current)
        stop = leave & state.ended_so_far(response).any(axis=1) & self.eos_early_stop
        after = state.moved(response, leave, stop, state.inside + 1)
        return after, Decision.accepting(accepted, best)


def _first(flags: Flags) -> Ints:
    """[B, G] -> [B]: the first column that is set; G where none is."""
    first: Ints = np.where(flags.any(axis=1), flags.argmax(axis=1), flags.shape[1])
    return first
