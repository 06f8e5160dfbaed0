"""What any decoder can take on top: end-of-text options and classifier-free guidance.

Axes: B rows, L columns, V vocabulary.  A wrapper is a decoder around a decoder; the rule inside is unchanged.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from archer.decoders.base import Attention, Decision, Decoder, DecodeState
from archer.decoders.fill_path import FillPath, path_of
from archer.passes.canvas import Canvas, Flags, Prompt, Scope
from archer.passes.logits import Answers, Logits, RowLogits, Rows


@dataclass(frozen=True)
class Wrapped:
    """Passes the verbs on."""

    inner: Decoder[Any]

    @property
    def attention(self) -> Attention:
        return self.inner.attention

    @property
    def reads(self) -> Scope:
        return self.inner.reads

    @property
    def draws(self) -> bool:
        return self.inner.draws

    @property
    def path(self) -> FillPath:
        return path_of(self.inner)

    def check(self, length: int) -> None:
        self.inner.check(length)

    def blocks(self, length: int) -> int:
        return self.inner.blocks(length)

    def start(self, prompt: Prompt, length: int) -> DecodeState:
        return self.inner.start(prompt, length)  # type: ignore[no-any-return]

    def limit(self, length: int) -> int:
        return self.inner.limit(length)

    def settled(self, state: DecodeState) -> Flags:
        return self.inner.settled(state)

    def canvas(self, state: DecodeState) -> Canvas:
        return self.inner.canvas(state)

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        return self.inner.step(state, logits)


@dataclass(frozen=True)
class EndOfText(Wrapped):
    """Against responses that end too early.

    `logits` forbids the end-of-text ids; `confidence` lets end ids be chosen but puts them last, by taking
    them out of the distribution from which confidences come.
    """

    mode: Literal["logits", "confidence"]

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        if self.mode == "logits":
            return self.inner.step(state, _without(logits, state.prompt.eos))
        return self.inner.step(state, _EndsLast(logits, state.prompt.ends))


@dataclass(frozen=True)
class Guided(Wrapped):
    """Classifier-free guidance: each row is asked twice, once with all that is given masked.

    Both are rows of the same batch with the same response, so each has its own prompt cache and both are
    refreshed together.  Logits are u + (scale + 1) (c - u).
    """

    scale: float

    def canvas(self, state: DecodeState) -> Canvas:
        plain = self.inner.canvas(state)
        twice = plain.select([row for row in range(plain.rows) for _ in range(2)])
        tokens = np.full_like(twice.tokens, state.prompt.mask)
        tokens[::2], tokens[1::2, plain.answers] = plain.tokens, plain.tokens[:, plain.answers]
        return replace(twice, tokens=tokens)

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        pairs = zip(logits.rows[::2], logits.rows[1::2], strict=True)
        rows = [
            with_prompt.with_values(self._guide(with_prompt.values, without.values, state.prompt))
            for with_prompt, without in pairs
        ]
        return self.inner.step(state, logits.changed(rows))

    def _guide(self, with_prompt: Tensor, without: Tensor, prompt: Prompt) -> Tensor:
        guided = without + (self.scale + 1) * (with_prompt - without)
        if not prompt.allowed:
            return guided
        return guided.masked_fill_(with_prompt == -torch.inf, -torch.inf)


class _EndsLast(Logits):
    """The same tokens; what says how sure a column is comes from a distribution without the end ids.

    A column whose likeliest token is an end id leads by nothing and has the largest entropy there is, so
    that orders by margin and by entropy take it last as well.
    """

    def __init__(self, logits: Logits, ends: Sequence[int]) -> None:
        super().__init__(logits.rows, logits.answers, logits.mask, made_of=logits)
        self._tokens = logits
        self._ends = tuple(ends)
        self._quiet = _without(logits, ends)

    def changed(self, rows: Sequence[RowLogits]) -> Logits:
        return _EndsLast(self._tokens.changed(rows), self._ends)

    def select(self, rows: Sequence[int]) -> Logits:
        return _EndsLast(self._tokens.select(rows), self._ends)

    @property
    def greedy(self) -> Answers:
        return self._with_quiet(self._tokens.greedy)

    def sampled(self, temperature: float, keys: Sequence[int], updates: Sequence[int]) -> Answers:
        return self._with_quiet(self._tokens.sampled(temperature, keys, updates))

    @property
    def entropy(self) -> Rows:
        return tuple(
            entropy.masked_fill(ends, math.log(row.values.shape[1]))
            for row, entropy, ends in zip(self.rows, self._quiet.entropy, self._ending, strict=True)
        )

    @property
    def margin(self) -> Rows:
        pairs = zip(self._quiet.margin, self._ending, strict=True)
        return tuple(margin.masked_fill(ends, 0.0) for margin, ends in pairs)

    @property
    def _ending(self) -> Rows:
        """Bool[n]: columns whose likeliest token is an end id."""
        ends = torch.tensor(self._ends, dtype=torch.long, device=self.rows[0].device)
        return tuple(torch.isin(tokens, ends) for tokens in self._tokens.greedy.tokens)

    def _with_quiet(self, best: Answers) -> Answers:
        return self._quiet.answering(best.tokens)


def _without(logits: Logits, ids: Sequence[int]) -> Logits:
    """The logits with these ids ruled out; the mask id stands in where nothing else is left."""
    if not ids:
        return logits
    index = torch.tensor(ids, device=logits.rows[0].device)
    return logits.changed([_ruled_out(row, index, logits.mask) for row in logits.rows])


def _ruled_out(row: RowLogits, ids: Tensor, mask: int) -> RowLogits:
    values = row.values.index_fill(1, ids, -torch.inf)
    values[:, mask].masked_fill_(values.amax(dim=1) == -torch.inf, 0.0)
    return row.with_values(values)
