"""Saber: accept every mask that beats the running bar, then take back what grew least in confidence.

Axes: B rows, G response columns.

The rule of the released LLaDA code, freed of its accidents.  Options name the variants that were published;
the released code's overwriting of placed tokens when fewer than n masks are left is not reproduced.
"""

from __future__ import annotations

from dataclasses import dataclass as plain_dataclass
from typing import Annotated, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass

from archer.decoders.base import (
    Decision,
    DecodeState,
    Rule,
    blank,
    finished,
    grow,
    kept,
    leading,
    trailing,
    whole_block,
)
from archer.errors import BadRequest
from archer.passes.canvas import Canvas, Flags, Ints, Prompt, Reals, Scope
from archer.passes.logits import Candidates, Logits

Number = TypeVar("Number", bound=np.generic)


@plain_dataclass(frozen=True)
class SaberState(DecodeState):
    """The response and two histories of confidence."""

    accepted_at: Reals
    """[B, G]: confidence at the last acceptance; NaN if never accepted; survives re-masking."""
    previous: Reals
    """[B, G]: confidence at the previous update; NaN where that update did not look."""
    block: Ints
    """[B]: index of the block being decoded."""


@dataclass(frozen=True)
class Saber(Rule):
    """Accept above the mean accept-time confidence, at least n; re-mask about |accepted| / mu."""

    n: Annotated[int, Field(ge=1)] = 2
    """The fewest positions accepted per update; as a keyword in Python `least`, where n counts samples."""
    mu: Annotated[int, Field(ge=1)] = 2
    """Re-mask divisor; the first released version had 8."""
    block: Annotated[int, Field(ge=1)] | None = None
    """Columns decoded together; earlier blocks stay revisable.  The whole response when left out."""
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """0 takes the likeliest token; above 0, tokens are drawn, the more evenly the higher it is."""
    rollback: bool = True
    """False is the control without re-masking."""
    watch: Literal["argmax", "placed"] = "argmax"
    """Whose probability is followed at a placed token: the likeliest token's (released) or its own."""
    pool: Literal["ever", "current"] = "ever"
    """The bar averages every position ever accepted (released) or those now placed (the Saber paper)."""
    remask: Literal["ceil", "floor"] = "ceil"
    """Rounding of |accepted| / mu: up (released) or down (the Saber paper)."""
    precision: Literal["float64", "bfloat16"] = "float64"
    """bfloat16 rounds confidences and bar as the released code did on bf16 weights."""
    doubt: Annotated[float, Field(gt=0, le=1)] | None = None
    """Take back only tokens whose measure is below this; if left out, whatever grew least (released)."""
    doubt_by: Literal["confidence", "own", "kept", "lead"] = "confidence"
    """The measure: the confidence followed, the token's own probability, the share that is left of its
    confidence at acceptance, or the lead of the likeliest token over the next."""

    @property
    def reads(self) -> Scope:
        return Scope.RESPONSE if self.rollback else Scope.MASKS

    @property
    def draws(self) -> bool:
        return self.temperature > 0

    def check(self, length: int) -> None:
        if self.n > length:
            raise BadRequest(
                f"n = {self.n} positions per update do not fit a response of {length}. "
                f"Choose n at most {length}, or a longer response."
            )
        whole_block(self.block, length)

    def blocks(self, length: int) -> int:
        return length // whole_block(self.block, length)

    def start(self, prompt: Prompt, length: int) -> SaberState:
        self.check(length)
        base = blank(prompt, length)
        return grow(
            SaberState,
            base,
            accepted_at=np.full(base.response.shape, np.nan),
            previous=np.zeros(base.response.shape),
            block=np.zeros(len(base.response), dtype=np.int64),
        )

    def limit(self, length: int) -> int:
        """Every update but the last leaves at least one token more."""
        return length

    def settled(self, state: SaberState) -> Flags:
        """Nothing until done, blocks or not: tokens of earlier blocks are taken back, too."""
        return finished(state) if self.rollback else kept(state)

    def canvas(self, state: SaberState) -> Canvas:
        block = whole_block(self.block, state.length)
        bounds = np.array([(index * block, (index + 1) * block) for index in state.block.tolist()])
        reads = np.ones(state.response.shape, np.bool_) if self.rollback else state.masked
        return Canvas.plain(
            state.prompt, state.response, bounds, self._below(state, reads, beyond=False)
        )

    def step(self, state: SaberState, logits: Logits) -> tuple[SaberState, Decision]:
        best, sure, signs = self._look(state, logits)
        bar = self._bar(state)
        accepted = self._accept(sure, bar, self._below(state, state.masked, beyond=False))
        response = np.where(accepted, best.tokens, state.response)
        left = response == state.prompt.mask
        going = self._below(state, left, beyond=False).any(axis=1)
        done = ~left.any(axis=1)
        count = self._remask_count(accepted) * going
        accepted_at = np.where(accepted, sure, state.accepted_at)
        placed = self._below(state, ~left & self._doubted(sure, signs, accepted_at), beyond=False)
        remasked = trailing(self._change(state, sure), placed, count)
        after = SaberState(
            prompt=state.prompt,
            response=np.where(remasked, state.prompt.mask, response),
            done=done,
            updates=tuple(update + 1 for update in state.updates),
            accepted_at=accepted_at,
            previous=self._below(state, sure, beyond=np.nan),
            block=state.block + ~(going | done),
        )
        decision = Decision(
            accepted=accepted,
            remasked=remasked,
            replaced=np.zeros_like(accepted),
            tokens=best.tokens,
            confidence=sure,
            threshold=bar,
        )
        return after, decision

    def _look(self, state: SaberState, logits: Logits) -> tuple[Candidates, Reals, Reals | None]:
        """What could be placed, and [B, G] each: the confidence the rule follows, and a sign of its own."""
        best = logits.sampled(self.temperature, state.prompt.keys, state.updates)
        by = self.doubt_by if self.doubt is not None else None
        if self.watch == "argmax" and by not in ("own", "lead"):
            found, _ = logits.read(best)
            return found, self._round(found.confidence), None
        wanted = [logits.probability(logits.at(state.response))]
        wanted += [logits.margin] if by == "lead" else []
        found, (placed, *lead) = logits.read(best, *wanted)
        own = np.where(state.masked, found.confidence, placed)
        sure = found.confidence if self.watch == "argmax" else own
        return found, self._round(sure), lead[0] if lead else own

    def _doubted(self, sure: Reals, signs: Reals | None, accepted_at: Reals) -> Flags:
        """[B, G]: what may be taken back, as far as doubt is asked for."""
        if self.doubt is None:
            return np.ones_like(sure, dtype=np.bool_)
        sign = sure
        if self.doubt_by == "kept":
            with np.errstate(invalid="ignore", divide="ignore"):
                sign = sure / accepted_at
        elif self.doubt_by != "confidence":
            assert signs is not None
            sign = signs
        return np.asarray(sign < self.doubt)

    def _below(
        self, state: SaberState, values: NDArray[Number], *, beyond: float
    ) -> NDArray[Number]:
        """[B, G]: `values` in the current block and all before it, which the rule looks at; else `beyond`."""
        if self.block is None:
            return values
        end = (state.block + 1) * self.block
        inside = np.arange(state.length) < end[:, None]
        return np.where(inside, values, np.asarray(beyond, dtype=values.dtype))

    def _change(self, state: SaberState, sure: Reals) -> Reals:
        """[B, G]: what confidence has gained; inf where the previous update did not look."""
        change: Reals = sure - state.previous
        if self.block is not None:
            change[np.isnan(change)] = np.inf
        return change

    def _bar(self, state: SaberState) -> Reals:
        """[B]: mean accept-time confidence, 1 while there is no history."""
        known = self._below(state, state.accepted_at, beyond=np.nan)
        counted = ~np.isnan(known)
        if self.pool == "current":
            counted &= ~state.masked
        numbers, totals = counted.sum(axis=1), np.where(counted, known, 0.0).sum(axis=1)
        sums = zip(totals.tolist(), numbers.tolist(), strict=True)
        return self._round(np.array([total / number if number else 1.0 for total, number in sums]))

    def _accept(self, sure: Reals, bar: Reals, eligible: Flags) -> Flags:
        """[B, G]: masks strictly above the bar; the n surest when those are fewer than n."""
        above = eligible & (sure > bar[:, None])
        few = [count < self.n for count in above.sum(axis=1).tolist()]
        if not any(few):
            return above
        return np.where(np.array(few)[:, None], leading(sure, eligible, self.n), above)

    def _remask_count(self, accepted: Flags) -> Ints:
        """[B]: fewer than were accepted, so that every update makes progress."""
        if not self.rollback:
            return np.zeros(len(accepted), dtype=np.int64)
        more = self.mu - 1 if self.remask == "ceil" else 0
        counts = accepted.sum(axis=1).tolist()
        wanted = [max((count + more) // self.mu, self.n // 2) for count in counts]
        return np.minimum(wanted, [count - 1 for count in counts])

    def _round(self, confidence: Reals) -> Reals:
        if self.precision == "float64":
            return confidence
        return torch.from_numpy(confidence).to(torch.bfloat16).to(torch.float64).numpy()
