"""The constraint beside the decoder: what a rule sees of a pass is one accepted text and how sure it is.

Axes: B rows, G open columns, K columns of the response that the constraint covers, n columns read.

Before a rule looks, every column it reads gets one candidate: the token of the likeliest accepted text, or of
one drawn at a temperature.  Whatever the rule accepts is therefore part of one accepted text, and what it
takes back only leaves more ways to complete the rest.  So any rule ends with an accepted text, in whatever
order it fills and revises, and none has to know.

The confidence of a candidate is its probability among all accepted texts that agree with what stands in the
other columns, and 1 where its text follows from all that stands before.  In a placed column the candidate is
the token that is there: a rule may take it back, but not replace it on the spot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from archer.decoders.base import Decision, Decoder, DecodeState
from archer.decoders.wrappers import EndOfText, Guided, Wrapped
from archer.errors import BadRequest
from archer.passes import noise
from archer.passes.canvas import Flags, Ints, Reals
from archer.passes.logits import Logits, RowLogits
from archer.passes.reduction import Peaks
from archer.structure.lattice import OPEN, Lattice, Weights
from archer.structure.token_automaton import FAR, TokenAutomaton

HOST = torch.device("cpu")
MOST_CELLS = 1 << 25
"""Steps of the recursions over a response, for each update: about a second, and a quarter of a gigabyte."""
STATE = 8
"""Steps that the numbers kept for a state are counted as, in each column."""
LEAST_SURE = 1e-300
"""A confidence above 0, which a rule may divide by."""


@dataclass(frozen=True, eq=False)
class Constraint:
    """What the response of one prompt has to be; a part of the prompt."""

    automaton: TokenAutomaton
    covered: int | None = None
    """Columns of the response that it covers; all of them where nothing is given behind."""
    closed: Flags | None = None
    """[K]: columns in which an end mark leaves no trace; None: there are none."""

    def lattice(self, tokens: Ints, known: Ints, logits: Weights, room: int = 0) -> Lattice:
        """Of a row whose response is `tokens` [K]; other arguments as in `Lattice`."""
        closed = np.zeros(len(tokens), dtype=np.bool_) if self.closed is None else self.closed
        return Lattice(self.automaton, tokens, known, closed, logits, room)

    def refuse_impossible(self, response: Ints, mask: int, *, name: str) -> None:
        """Raise where no accepted text agrees with a response [K] before its first update."""
        tokens = np.where(response == mask, OPEN, response)[: self.covered]
        self._refuse_large(len(tokens), name)
        nothing = np.zeros((0, 1), dtype=np.float32)
        if self.lattice(tokens, np.full(len(tokens), -1), nothing).feasible:
            return
        needed = self.automaton.shortest
        if (tokens == OPEN).all() and len(tokens) < needed < FAR:
            raise BadRequest(
                f"The shortest text that the {name} accepts has {needed} tokens, and the length is "
                f"{len(tokens)}. Give a length (max_tokens) of at least {needed}."
            )
        raise BadRequest(
            f"No text that the {name} accepts agrees with what is given of the response and fits into "
            f"the {int((tokens == OPEN).sum())} tokens left. Give other text, or more room."
        )

    def together(self, length: int) -> int:
        """Responses whose update takes no longer, one after the other, than that of one may; at least 1."""
        return max(1, MOST_CELLS // max(1, self._size(self.covered or length)))

    def _size(self, columns: int) -> int:
        """Steps of an update of one response."""
        return columns * (len(self.automaton.source) + STATE * self.automaton.states)

    def _refuse_large(self, columns: int, name: str) -> None:
        """Raise where one update would take more time or memory than a pass is worth."""
        size = self._size(columns)
        if size > MOST_CELLS:
            raise BadRequest(
                f"The {name} is too large for a response of {columns} tokens: about {size} steps for each "
                f"update, and at most {MOST_CELLS} are made. Ask for at most "
                f"{columns * MOST_CELLS // size} tokens, or bound its numbers and lengths more tightly."
            )


def constrained(decoder: Decoder[Any]) -> Decoder[Any]:
    """A decoder that obeys the constraint of its prompt; guidance and end marks are dealt with before."""
    if isinstance(decoder, Guided | EndOfText):
        return replace(decoder, inner=constrained(decoder.inner))
    return Constrained(decoder)


@dataclass(frozen=True)
class Constrained(Wrapped):
    """Hands a rule one accepted text in place of the pass's logits."""

    @property
    def temperature(self) -> float:
        rule: Any = self.inner
        while isinstance(rule, Wrapped):
            rule = rule.inner
        return float(getattr(rule, "temperature", 0.0))

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        decided = [self._decided(state, at, row) for at, row in enumerate(logits.rows)]
        logits.note_soundness([sound for _, sound in decided])
        candidates = logits.changed([row for row, _ in decided])
        candidates.decided = True
        return self.inner.step(state, candidates)

    def _decided(self, state: DecodeState, at: int, row: RowLogits) -> tuple[RowLogits, bool]:
        """What the rule sees of a row, and whether its logits are sound."""
        constraint, prompt = state.prompt.constraint, state.prompt
        assert isinstance(constraint, Constraint)
        response = prompt.response(state.response[at : at + 1])[0]
        stop = min(int(state.stops[at]), state.wanted) if prompt.gaps is None else len(response)
        response = response[: min(stop, constraint.covered or stop)]
        places = np.array([place for place in row.places if place < state.length], dtype=np.int64)
        columns = places if prompt.gaps is None else prompt.gaps[places]
        inside = columns < len(response)
        known = np.full(len(response), -1)
        known[columns[inside]] = np.flatnonzero(inside)
        lattice = constraint.lattice(
            np.where(response == prompt.mask, OPEN, response),
            known,
            row.values[: len(places)].numpy(force=True).astype(np.float32, copy=False),
            max(0, state.wanted - stop) if prompt.gaps is None else 0,
        )
        sound = lattice.sound
        if not sound:  # the request fails, and any accepted text will do until then
            lattice = replace(lattice, logits=np.zeros_like(lattice.logits))
        string = self._string(lattice, prompt.keys[at], state.updates[at])
        tokens = np.full(len(places), constraint.automaton.tokens[-1])
        sure = np.ones(len(places))
        tokens[inside] = string[columns[inside]]
        sure[inside] = lattice.confidence(string, columns[inside])
        sure[inside] = np.where(lattice.certain(string)[columns[inside]], 1.0, sure[inside])
        beyond = row.values[len(places) :]
        scratch = RowLogits(beyond, row.places[-len(beyond) :]) if len(beyond) else None
        sound = sound and bool(beyond.amax(dim=1).isfinite().all())
        decided = Decided(tokens, sure, prompt.mask, row.values.shape[1], scratch)
        return RowLogits(decided, row.places), sound

    def _string(self, lattice: Lattice, key: int, update: int) -> Ints:
        if self.temperature == 0:
            return lattice.likeliest()
        generator = noise.stream(key, update, HOST)
        chance = noise.uniform(generator, 2 * lattice.columns).numpy().reshape(-1, 2)
        return lattice.drawn(self.temperature, chance)


class Decided:
    """Logits of one row in which each column has one candidate; the mask id has the rest of the probability.

    Stands for [n, V].  Scratch columns, which nothing is written to, come last and stay as they are.
    """

    device = HOST

    def __init__(
        self, tokens: Ints, sure: Reals, mask: int, vocabulary: int, scratch: RowLogits | None
    ) -> None:
        self._tokens = torch.from_numpy(tokens)
        self._log = torch.from_numpy(np.log(np.maximum(sure, LEAST_SURE)))
        self._mask, self._vocabulary, self._scratch = mask, vocabulary, scratch

    @cached_property
    def peaks(self) -> Peaks:
        own = Peaks(self._tokens, self._log, self._log, torch.expm1(-self._log))
        if self._scratch is None:
            return own
        also = self._scratch.peaks(self._mask)
        pairs = zip(own.tensors, also.tensors, strict=True)
        return Peaks(*(torch.cat((a, b.to(HOST, a.dtype))) for a, b in pairs))

    def entropy(self) -> Tensor:
        """What the candidate's token would tell, in nats: the less sure, the more."""
        return self._with_scratch(-self._log, lambda row: row.entropy(row.peaks(self._mask)))

    def second_best(self) -> Tensor:
        nothing = torch.full_like(self._log, -torch.inf)
        return self._with_scratch(
            nothing, lambda row: row.second_best(row.peaks(self._mask), self._mask)
        )

    def logit_of(self, tokens: Tensor) -> Tensor:
        here = tokens.to(HOST)
        count = len(self._tokens)
        own = self._log.masked_fill(here[:count] != self._tokens, -torch.inf)
        return self._with_scratch(own, lambda row: row.logit_of(here[count:].to(row.device)))

    def drawn(self, temperature: float, key: int, update: int) -> Tensor:
        """What was drawn before the rule looked."""
        return self.peaks.tokens

    def likeliest(self, count: int) -> tuple[Tensor, Tensor]:
        logits, tokens = self.whole().topk(min(count, self._vocabulary), dim=1)
        return logits, tokens

    def whole(self) -> Tensor:
        """Float64[n, V]"""
        values = torch.full((len(self._tokens), self._vocabulary), -torch.inf, dtype=torch.float64)
        values[:, self._mask] = torch.log(-torch.expm1(self._log))
        values.scatter_(1, self._tokens[:, None], self._log[:, None])
        if self._scratch is None:
            return values
        return torch.cat((values, self._scratch.values.to(HOST, torch.float64)))

    def _with_scratch(self, own: Tensor, of: Any) -> Tensor:
        return (
            own
            if self._scratch is None
            else torch.cat((own, of(self._scratch).to(HOST, own.dtype)))
        )
