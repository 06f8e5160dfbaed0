"""Decoders that write a text which is given, to learn how probable a model finds it.

Axes: B rows, G response columns, P prompt columns, U looks of a row.

They go through the loop like any other decoder; what they find out is in their decisions.  `Looks` masks
parts of the text and reads what was masked; `SurestFirst` reveals the text one token at a time; `Replayed`
follows another decoder whose every draw is answered with the token of the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch

from archer.decoders.base import (
    Attention,
    Decision,
    Decoder,
    DecodeState,
    blank,
    finished,
    grow,
    leading,
    one_block,
)
from archer.decoders.wrappers import Wrapped
from archer.passes.canvas import Canvas, Flags, Ints, Prompt, Reals, Scope
from archer.passes.logits import Answers, Logits, RowLogits, Rows


@dataclass(frozen=True)
class Scored(Decision):
    """A decision that wrote tokens of the given text."""

    log_probability: Reals
    """[B, G]: of the token that was written; NaN where none was."""

    @classmethod
    def of(cls, decision: Decision, log_probability: Reals) -> Scored:
        own = {item.name: getattr(decision, item.name) for item in fields(decision)}
        wrote = np.where(decision.accepted, log_probability, np.nan)
        return cls(**own, log_probability=wrote)


@dataclass(frozen=True)
class LookState(DecodeState):
    """Which columns each row has masked at each look; the response is what it masks now."""

    text: Ints
    """[B, G]"""
    hidden: Flags
    """[B, U, G]; a row without any has made its last look."""
    unseen: Flags
    """[B, U, P]: prompt columns that are masked as well."""

    def at(self, looks: Flags, updates: Sequence[int]) -> Flags:
        """[B, U, ...] -> [B, ...]: those of the look with this number; the last one of a row that is done."""
        last = looks.shape[1] - 1
        return looks[np.arange(len(updates)), [min(update, last) for update in updates]]


@dataclass(frozen=True)
class _Given:
    """What the rules here have in common: they fill masks of one response with a text."""

    text: tuple[int, ...]

    attention = Attention.ANY
    reads = Scope.MASKS

    def check(self, length: int) -> None:
        """The text is as long as the response."""
        assert length == len(self.text)

    def blocks(self, length: int) -> int:
        return 1

    def settled(self, state: DecodeState) -> Flags:
        return finished(state)

    def _read(self, logits: Logits, text: Ints) -> tuple[Ints, Reals, Reals]:
        """[B, G] each: the tokens of the text that were read, their probability and its logarithm."""
        tokens = logits.at(text)
        written, (log_probability,) = logits.read(
            logits.answering(tokens), logits.log_probability(tokens)
        )
        return written.tokens, written.confidence, log_probability


@dataclass(frozen=True, eq=False)
class Looks(_Given):
    """Each update masks some columns and reads them, whatever the one before has masked."""

    hidden: Flags
    """[B, U, G]: what each row masks, look by look."""
    unseen: Flags
    """[B, U, P]: what it masks of the prompt."""

    draws = True

    def limit(self, length: int) -> int:
        return int(self.hidden.shape[1])

    def start(self, prompt: Prompt, length: int) -> LookState:
        text = np.tile(np.array(self.text), (prompt.rows, 1))
        base = blank(prompt, length)
        state = grow(LookState, base, text=text, hidden=self.hidden, unseen=self.unseen)
        return replace(state, response=self._masked(state, state.updates))

    def canvas(self, state: LookState) -> Canvas:
        plain = one_block(state, state.masked)
        unseen = state.at(state.unseen, state.updates)
        if not unseen.any():
            return plain
        tokens = plain.tokens.copy()
        tokens[:, : unseen.shape[1]][unseen] = state.prompt.mask
        return replace(plain, tokens=tokens)

    def step(self, state: LookState, logits: Logits) -> tuple[LookState, Decision]:
        tokens, confidence, log_probability = self._read(logits, state.text)
        masked = state.masked
        updates = [update + 1 for update in state.updates]
        over = np.array([update >= state.hidden.shape[1] for update in updates])
        over |= ~state.at(state.hidden, updates).any(axis=1)
        after = np.where(over[:, None], state.text, self._masked(state, updates))
        decision = Decision(
            accepted=masked,
            remasked=(after == state.prompt.mask) & ~masked,
            replaced=np.zeros_like(masked),
            tokens=tokens,
            confidence=confidence,
            threshold=np.full(len(masked), np.nan),
        )
        return state.advanced(after, over), Scored.of(decision, log_probability)

    def _masked(self, state: LookState, updates: Sequence[int]) -> Ints:
        return np.where(state.at(state.hidden, updates), state.prompt.mask, state.text)


@dataclass(frozen=True)
class SurestFirst(_Given):
    """One token per update: the one of the text that the model finds most probable where it belongs.

    The order looks at the text, so the sum of the logarithms is no likelihood of any decoder; iLLaDA ranks
    answers by it.
    """

    draws = False

    def limit(self, length: int) -> int:
        return length

    def start(self, prompt: Prompt, length: int) -> DecodeState:
        return blank(prompt, length)

    def canvas(self, state: DecodeState) -> Canvas:
        return one_block(state, state.masked)

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        text = np.tile(np.array(self.text), (len(state.updates), 1))
        tokens, confidence, log_probability = self._read(logits, text)
        accepted = leading(log_probability, state.masked, 1)
        decision = Decision(
            accepted=accepted,
            remasked=np.zeros_like(accepted),
            replaced=np.zeros_like(accepted),
            tokens=tokens,
            confidence=confidence,
            threshold=np.full(len(accepted), np.nan),
        )
        after = state.advanced(np.where(accepted, text, state.response))
        return after, Scored.of(decision, log_probability)


@dataclass(frozen=True)
class Replayed(Wrapped):
    """Another decoder, to which every draw returns the token of the text.

    Where it fills masks must not depend on what is drawn: then a text is written along one path alone, and
    the product of its probabilities there is that of the text under this decoder.
    """

    text: tuple[int, ...] = ()

    @classmethod
    def around(cls, inner: Decoder[Any], text: Sequence[int]) -> Replayed:
        return cls(inner, tuple(text))

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        text = np.tile(np.array(self.text), (len(state.updates), 1))
        answered = AnsweredLogits(logits, text)
        after, decision = self.inner.step(state, answered)
        (log_probability,) = answered.log_probabilities
        return after, Scored.of(decision, logits.placed(log_probability))


class AnsweredLogits(Logits):
    """Logits from which nothing is drawn: the tokens are given, and it is noted how probable they were."""

    def __init__(
        self, logits: Logits, text: Ints, log_probabilities: list[Rows] | None = None
    ) -> None:
        super().__init__(logits.rows, logits.answers, logits.mask, made_of=logits)
        self._text = text
        self.log_probabilities: list[Rows] = [] if log_probabilities is None else log_probabilities
        """What was drawn from last, and how probable the text was there."""

    def changed(self, rows: Sequence[RowLogits]) -> Logits:
        return AnsweredLogits(super().changed(rows), self._text, self.log_probabilities)

    def sampled(self, temperature: float, keys: Sequence[int], updates: Sequence[int]) -> Answers:
        tokens = self.at(self._text)
        self.log_probabilities[:] = [
            tuple(
                _drawn_with(row, each, temperature, self.mask)
                for row, each in zip(self.rows, tokens, strict=True)
            )
        ]
        return self.answering(tokens)


def _drawn_with(
    row: RowLogits, tokens: torch.Tensor, temperature: float, mask: int
) -> torch.Tensor:
    """Long[n] -> Float64[n]: logarithms of the probabilities with which `RowLogits.drawn` draws these."""
    weights = row.exact / temperature
    weights[:, mask] = -torch.inf
    likely: torch.Tensor = weights.log_softmax(dim=1)
    return likely.gather(1, tokens[:, None].to(likely.device)).squeeze(1)
