"""What every decoder shares: its state, what it says it did, and how positions are ranked.

Axes: B rows, G open columns of the response: those that the rule fills.  Columns that are given are none of
its business: the state does not hold them, and the canvas puts them in their place.

A decoder is a frozen dataclass of settings with three verbs.  `start` makes the state, `canvas` says what
to ask the model, `step` is pure: it returns a new state and a Decision and changes nothing.  A decoder
knows no model, no cache and no loop.  `Decoder` is what others may ask of it; `Rule` answers most of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, cast

import numpy as np
import torch
from pydantic.dataclasses import dataclass as settings_dataclass

from archer.errors import BadRequest
from archer.passes import noise
from archer.passes.bounds import Temperature
from archer.passes.canvas import Canvas, Flags, Ints, Prompt, Reals, Scope
from archer.passes.logits import Answers, Candidates, Logits

HOST = torch.device("cpu")


@dataclass(frozen=True)
class DecodeState:
    """A response in progress, as a value: keep it, fork it, replay it.  Array fields have B first."""

    prompt: Prompt
    response: Ints
    """[B, G]: what the rule has written; the mask id where nothing is placed."""
    done: Flags
    """[B]"""
    updates: tuple[int, ...]
    """Updates made so far, per row; they name the noise of the next one."""
    stops: Ints
    """[B]: one past the last column that a row has; what lies behind it holds masks that do not count."""
    resting: Flags
    """[B, G]: placed tokens that need no pass for a while; a canvas may leave them out."""

    @property
    def length(self) -> int:
        return int(self.response.shape[1])

    @property
    def tokens(self) -> Ints:
        """[B, L]: prompt and response, with what is given of it."""
        return self.prompt.before(self.response)

    @cached_property
    def masked(self) -> Flags:
        """[B, G]: nothing placed; read-only."""
        return read_only(self.masked_in(self.response))

    @cached_property
    def placed(self) -> Flags:
        """[B, G]: a token that the rule has placed, and may revise if it revises at all; read-only."""
        return read_only(self.placed_in(self.response))

    def masked_in(self, response: Ints) -> Flags:
        """[B, G]: what would be masked if the response were this one."""
        masked: Flags = response == self.prompt.mask
        return masked & self.existing

    @cached_property
    def existing(self) -> Flags:
        """[B, G]: the columns that each row has; read-only."""
        return read_only(np.arange(self.length) < self.stops[:, None])

    def placed_in(self, response: Ints) -> Flags:
        """[B, G]: what the rule would have placed if the response were this one."""
        placed: Flags = response != self.prompt.mask
        return placed

    def filled(self, response: Ints, within: Flags | None = None) -> Flags:
        """[B]: no mask would be left, at all or `within` these columns [B, G]."""
        left = self.masked_in(response)
        return ~np.asarray((left if within is None else left & within).any(axis=1))

    def advanced(self, response: Ints, done: Flags | None = None, **changes: Any) -> Self:
        """The state after an update wrote `response`: done where no mask is left, unless `done` is given."""
        over = self.filled(response) if done is None else done
        updates = tuple(update + 1 for update in self.updates)
        return replace(self, response=response, done=over, updates=updates, **changes)

    @property
    def wanted(self) -> int:
        """Columns of the response that were asked for; a rule that fills whole blocks may decode more."""
        return self.length

    def result(self, row: int) -> Ints:
        """What a row returns once it is done."""
        result: Ints = self.response[row, : self.stops[row]]
        return result

    def select(self, rows: Sequence[int]) -> Self:
        """The same state with only these rows."""
        chosen = list(rows)
        changes: dict[str, Any] = {
            item.name: value[chosen]
            for item in fields(self)
            if isinstance(value := getattr(self, item.name), np.ndarray)
        }
        updates = tuple(self.updates[row] for row in rows)
        return replace(self, prompt=self.prompt.select(rows), updates=updates, **changes)


def read_only(flags: Flags) -> Flags:
    """What a state works out once for all who ask."""
    flags.setflags(write=False)
    return flags


State = TypeVar("State", bound=DecodeState)


@dataclass(frozen=True)
class Decision:
    """What the rule did in one update, said by the rule: a position can be accepted and re-masked at once."""

    accepted: Flags
    """[B, G]: masks that were filled."""
    remasked: Flags
    """[B, G]: placed tokens that were taken back."""
    replaced: Flags
    """[B, G]: placed tokens that became another token."""
    tokens: Ints
    """[B, G]: what was written where accepted or replaced; elsewhere without meaning."""
    confidence: Reals
    """[B, G]: what the rule looked at; NaN where it did not look."""
    threshold: Reals
    """[B]: confidence a mask had to exceed; NaN for rules without one."""

    @classmethod
    def accepting(cls, accepted: Flags, best: Candidates, **also: Any) -> Decision:
        """Masks were filled with the best candidates; `also` are fields of which there is more to say."""
        usual = {
            "accepted": accepted,
            "remasked": np.zeros_like(accepted),
            "replaced": np.zeros_like(accepted),
            "tokens": best.tokens,
            "confidence": best.confidence,
            "threshold": np.full(len(accepted), np.nan),
        }
        return cls(**(usual | also))

    def select(self, rows: Sequence[int]) -> Decision:
        chosen = list(rows)
        return replace(
            self, **{item.name: getattr(self, item.name)[chosen] for item in fields(self)}
        )


class Attention(StrEnum):
    """Which models a decoder is for."""

    ANY = "any"
    FULL = "full attention"
    """It asks about columns after the response, which would belong to no block."""
    BLOCK_CAUSAL = "block-causal attention"
    """It says itself which columns a block sees."""


class Decoder(Protocol[State]):
    """The three verbs and what a rule declares.  Implementations are frozen dataclasses of settings."""

    @property
    def attention(self) -> Attention:
        """Which models it is for; declared, because a request is checked before anything is laid out."""
        ...

    @property
    def reads(self) -> Scope:
        """The widest set of columns whose logits it looks at; a rule that takes tokens back reads them."""
        ...

    @property
    def draws(self) -> bool:
        """Whether anything is left to chance; if not, all samples of a prompt are the same."""
        ...

    def check(self, length: int) -> None:
        """Refuse settings that do not fit a response of this length."""
        ...

    def blocks(self, length: int) -> int:
        """Blocks in which a response of this length is decoded; 1 where it is decoded as a whole."""
        ...

    def start(self, prompt: Prompt, length: int) -> State:
        """All masks.  Refuses what `check` refuses."""
        ...

    def limit(self, length: int) -> int:
        """Updates within which this rule must have finished; the loop raises beyond them."""
        ...

    def settled(self, state: State) -> Flags:
        """[B, G]: placed tokens that no later update can change; all of a row that is done."""
        ...

    def canvas(self, state: State) -> Canvas:
        """What to ask the model in this state."""
        ...

    def step(self, state: State, logits: Logits) -> tuple[State, Decision]:
        """One update.  Pure."""
        ...


@settings_dataclass(frozen=True, kw_only=True)
class Rule(Generic[State]):
    """Base of decoders, with what most rules answer alike.

    A rule that fills masks and keeps them needs `canvas` and `step`, and `begin` if its state is its own.
    One that takes tokens back says in `reads` what it looks at, and in `settled` what it leaves alone.
    """

    temperature: Temperature = 0.0
    """0 takes the likeliest token; above 0, tokens are drawn, the more evenly the higher it is."""

    attention: ClassVar[Attention] = Attention.ANY
    resizes: ClassVar[bool] = False
    """Whether rows may get or lose columns at their end: true where it ends because no mask is left."""

    @property
    def reads(self) -> Scope:
        return Scope.MASKS

    @property
    def draws(self) -> bool:
        return self.temperature > 0

    def check(self, length: int) -> None:
        """Any length will do, unless a rule says otherwise."""

    def blocks(self, length: int) -> int:
        return 1

    def start(self, prompt: Prompt, length: int) -> State:
        self.check(length)
        return self.begin(prompt, length)

    def begin(self, prompt: Prompt, length: int) -> State:
        """The state before the first update; without more to remember, a blank response."""
        return cast("State", blank(prompt, length))

    def limit(self, length: int) -> int:
        """One update per position: enough where every update but the last leaves a token more."""
        return length

    def settled(self, state: State) -> Flags:
        """Whatever is placed where the rule looks at masks alone; else nothing until it is done."""
        return kept(state) if self.reads is Scope.MASKS else finished(state)

    def canvas(self, state: State) -> Canvas:
        raise NotImplementedError

    def step(self, state: State, logits: Logits) -> tuple[State, Decision]:
        raise NotImplementedError

    def remembering(self, state: State, accepted: Flags, best: Candidates) -> State:
        """The state of a rule that has accepted these columns [B, G], as far as its own history goes."""
        return state

    def sampled(self, state: State, logits: Logits) -> Answers:
        """The likeliest token of every column that was read, or at a temperature a drawn one."""
        return logits.sampled(self.temperature, state.prompt.keys, state.updates)


def blank(prompt: Prompt, length: int) -> DecodeState:
    """A response of masks for every row of the prompt."""
    if prompt.gaps is not None and len(prompt.gaps) != length:
        raise BadRequest(
            f"The response that is given has {len(prompt.gaps)} tokens to fill, and the length is {length}. "
            "Give the number of its masks as the length."
        )
    return DecodeState(
        prompt=prompt,
        response=np.full((prompt.rows, length), prompt.mask, dtype=np.int64),
        done=np.zeros(prompt.rows, dtype=np.bool_),
        updates=(0,) * prompt.rows,
        stops=np.full(prompt.rows, length),
        resting=np.zeros((prompt.rows, length), dtype=np.bool_),
    )


def grow(kind: type[State], base: DecodeState, **more: Any) -> State:
    """A richer state with everything `base` has."""
    return kind(**{item.name: getattr(base, item.name) for item in fields(base)}, **more)


def one_block(state: DecodeState, reads: Flags) -> Canvas:
    """The question of a decoder that knows no blocks: the response is one."""
    bounds = np.array([[0, state.length]] * len(state.updates))
    return Canvas.plain(state.prompt, state.response, bounds, reads)


def finished(state: DecodeState) -> Flags:
    """[B, G]: what is settled where the rule may change anything up to its end."""
    return np.broadcast_to(state.done[:, None], state.response.shape)


def kept(state: DecodeState) -> Flags:
    """[B, G]: what is settled where the rule takes nothing back: whatever is placed."""
    return state.placed | finished(state)


def settled_prefix(state: DecodeState, unchanged: Ints, settle: int | None) -> Flags:
    """[B, G]: placed tokens that have stood for `settle` updates, as far as all before them have, too.

    `unchanged` [B, G] counts the updates since a token was placed.  Nothing where there is no `settle`.
    """
    if settle is None:
        return np.zeros_like(state.masked)
    stands = state.placed & (unchanged >= settle)
    return np.logical_and.accumulate(stands, axis=1)


def chance(state: DecodeState, purpose: noise.Purpose) -> Reals:
    """[B, G] in [0, 1), drawn for this update of each row."""
    drawn = [
        noise.uniform(noise.stream(key, update, HOST, purpose), state.length).numpy()
        for key, update in zip(state.prompt.keys, state.updates, strict=True)
    ]
    return np.stack(drawn)


def above_or_surest(above: Flags, scores: Reals, eligible: Flags, least: Ints | int) -> Flags:
    """[B, G]: positions `above` a bar; in rows with fewer than `least` [B], the `least` surest eligible."""
    few = above.sum(axis=1) < least
    if not few.any():
        return above
    return np.where(few[:, None], leading(scores, eligible, least), above)


def leading(scores: Reals, eligible: Flags, count: Ints | int) -> Flags:
    """[B, G]: the `count` [B] eligible positions with the highest score; among equals the lower index."""
    return trailing(-scores, eligible, count)


def trailing(scores: Reals, eligible: Flags, count: Ints | int) -> Flags:
    """The same for the lowest score: a stable sort over the response, in which NaN comes last."""
    order = np.where(eligible, scores, np.nan).argsort(axis=1, kind="stable")
    chosen = np.zeros_like(eligible)
    counts = [count] * len(order) if isinstance(count, int) else count.tolist()
    for row, most in enumerate(counts):
        chosen[row, order[row, : max(0, most)]] = True
    return chosen & eligible
