"""Saber: accept every mask that beats the running bar, then take back what grew least in confidence.

Axes: B rows, G response columns.

The rule of the released LLaDA code, freed of its accidents.  Options name the variants that were published;
the released code's overwriting of placed tokens when fewer than n masks are left is not reproduced.
"""

from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from pydantic.dataclasses import dataclass

from archer.decoders.base import Decision, above_or_surest, grow, settled_prefix, trailing
from archer.decoders.blocks import BlockState, Blockwise
from archer.errors import BadRequest
from archer.passes.bounds import Count, CountOrNone, Share, Tokens
from archer.passes.canvas import Canvas, Flags, Ints, Prompt, Reals, Scope, among
from archer.passes.logits import Candidates, Logits

FEWEST = 2
"""An n that goes with every response; one of a single token is then filled at once."""


@plain_dataclass(frozen=True)
class SaberState(BlockState):
    """A block in progress and two histories of confidence."""

    accepted_at: Reals
    """[B, G]: confidence at the last acceptance; NaN if never accepted; survives re-masking."""
    previous: Reals
    """[B, G]: confidence at the previous update; NaN where that update did not look."""
    unchanged: Ints
    """[B, G]: updates since the token was placed; 0 where nothing is."""


@dataclass(frozen=True)
class Saber(Blockwise[SaberState]):
    """Accept above the mean accept-time confidence, at least n; re-mask about |accepted| / mu."""

    resizes: ClassVar[bool] = True

    n: Count = 2
    """The fewest positions accepted per update; as a keyword in Python `least`, where n counts samples."""
    cap: Share = 1.0
    """The highest that the bar may be; 1 is Saber's own, which a mean near 1 makes hard to beat."""
    mu: Count = 2
    """Re-mask divisor; the first released version had 8."""
    block: Tokens | None = None
    """Columns decoded together; earlier blocks stay revisable.  The whole response when left out."""
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
    doubt_by: Literal["confidence", "own", "kept", "lead", "rival", "moved"] = "confidence"
    """The measure: the confidence followed, the token's own probability, the share that is left of its
    confidence at acceptance, or the lead of the likeliest token over the next.  Two of T2M's detectors are
    the others: how improbable a likelier token is (T2M doubts below 0.1), and 1 less what its own probability
    has changed by since acceptance (0.7); `own` is the third (0.5)."""
    settle: Count | None = None
    """Updates after which a token that nobody took back stays, if all before it stay: text that streams."""

    @property
    def reads(self) -> Scope:
        """With rollback, tokens of earlier blocks too: they are taken back like those of this one."""
        return Scope.RESPONSE if self.rollback else Scope.MASKS

    def check(self, length: int) -> None:
        if self.n > max(length, FEWEST):
            raise BadRequest(
                f"n = {self.n} positions per update do not fit a response of {length}. "
                f"Choose n at most {length}, or a longer response."
            )
        super().check(length)

    def begin(self, prompt: Prompt, length: int) -> SaberState:
        base = BlockState.begin(prompt, length, self.block, ragged=self.ragged)
        return grow(
            SaberState,
            base,
            accepted_at=np.full(base.response.shape, np.nan),
            previous=np.zeros(base.response.shape),
            unchanged=np.zeros(base.response.shape, dtype=np.int64),
        )

    def settled(self, state: SaberState) -> Flags:
        return super().settled(state) | settled_prefix(state, state.unchanged, self.settle)

    def remembering(self, state: SaberState, accepted: Flags, best: Candidates) -> SaberState:
        sure = self._round(best.confidence)
        return replace(state, accepted_at=np.where(accepted, sure, state.accepted_at))

    def canvas(self, state: SaberState) -> Canvas:
        return state.canvas(state.reached if self.rollback else state.reached & state.masked)

    def step(self, state: SaberState, logits: Logits) -> tuple[SaberState, Decision]:
        best, sure, signs = self._look(state, logits)
        bar, looked = self._bar(state), ~np.isnan(sure)
        eligible = state.within(state.masked)
        accepted = above_or_surest(eligible & (sure > bar[:, None]), sure, eligible, self.n)
        response = np.where(accepted, best.tokens, state.response)
        left = state.masked_in(response)
        going, done = state.within(left).any(axis=1), ~left.any(axis=1) & state.in_last
        count = self._remask_count(accepted) * going
        accepted_at = np.where(accepted, sure, state.accepted_at)
        doubted = looked if self.doubt is None else self._doubted(sure, signs, accepted_at)
        revisable = state.within(state.placed_in(response) & doubted)
        if self.settle is not None:
            revisable &= ~settled_prefix(state, state.unchanged, self.settle)
        remasked = trailing(_gain(state, sure), revisable, count)
        after = state.advanced(
            np.where(remasked, state.prompt.mask, response),
            done,
            accepted_at=accepted_at,
            previous=state.within(np.where(looked, sure, state.previous), beyond=np.nan),
            unchanged=self._counted(state, remasked),
            block=state.block + ~(going | done),
        )
        return after, Decision(
            accepted=accepted,
            remasked=remasked,
            replaced=np.zeros_like(accepted),
            tokens=best.tokens,
            confidence=sure,
            threshold=bar,
        )

    def _counted(self, state: SaberState, remasked: Flags) -> Ints:
        """[B, G]: updates that tokens have stood for; not counted where nothing settles."""
        if self.settle is None:
            return state.unchanged
        return np.where(state.placed & ~remasked, state.unchanged + 1, 0)

    def _look(self, state: SaberState, logits: Logits) -> tuple[Candidates, Reals, Reals | None]:
        """What could be placed, and [B, G] each: the confidence the rule follows, and a sign of its own."""
        best = self.sampled(state, logits)
        by = self.doubt_by if self.doubt is not None else None
        if self.watch == "argmax" and by in (None, "confidence", "kept"):
            candidates, _ = logits.read(best)
            return candidates, self._round(candidates.confidence), None
        readings = [logits.probability(logits.at(state.response))]
        readings += [logits.margin] if by == "lead" else []
        candidates, (placed, *lead) = logits.read(best, *readings)
        own = np.where(state.masked, candidates.confidence, placed)
        sure = candidates.confidence if self.watch == "argmax" else own
        if by == "lead":
            return candidates, self._round(sure), lead[0]
        if by == "rival":
            other = state.placed & (candidates.tokens != state.response)
            return candidates, self._round(sure), np.where(other, 1 - candidates.confidence, 1.0)
        return candidates, self._round(sure), own

    def _doubted(self, sure: Reals, signs: Reals | None, accepted_at: Reals) -> Flags:
        """[B, G]: what may be taken back where doubt is asked for."""
        assert self.doubt is not None
        if self.doubt_by == "confidence":
            return np.asarray(sure < self.doubt)
        if self.doubt_by == "kept":
            with np.errstate(invalid="ignore", divide="ignore"):
                return np.asarray(sure / accepted_at < self.doubt)
        assert signs is not None
        sign = 1 - abs(signs - accepted_at) if self.doubt_by == "moved" else signs
        return np.asarray(sign < self.doubt)

    def _bar(self, state: SaberState) -> Reals:
        """[B]: mean accept-time confidence, 1 while there is no history."""
        known = state.accepted_at
        counted = ~np.isnan(known)
        if self.pool == "current":
            counted &= state.placed
        numbers, totals = counted.sum(axis=1), np.where(counted, known, 0.0).sum(axis=1)
        sums = zip(totals.tolist(), numbers.tolist(), strict=True)
        means = [total / number if number else 1.0 for total, number in sums]
        return self._round(np.minimum(means, self.cap))

    def _remask_count(self, accepted: Flags) -> Ints:
        """[B]: fewer than were accepted, so that every update makes progress."""
        if not self.rollback:
            return np.zeros(len(accepted), dtype=np.int64)
        more = self.mu - 1 if self.remask == "ceil" else 0
        counts = accepted.sum(axis=1).tolist()
        targets = [max((count + more) // self.mu, self.n // 2) for count in counts]
        return np.minimum(targets, [count - 1 for count in counts])

    def _round(self, confidence: Reals) -> Reals:
        if self.precision == "float64":
            return confidence
        return torch.from_numpy(confidence).to(torch.bfloat16).to(torch.float64).numpy()


def _gain(state: SaberState, sure: Reals) -> Reals:
    """[B, G]: what confidence has gained; inf where this or the previous update did not look."""
    gain: Reals = sure - state.previous
    return np.where(np.isnan(gain), np.inf, gain)


@dataclass(frozen=True)
class SaberStream(Saber):
    """Saber whose text can be sent before its end: short blocks from the left, and tokens that settle.

    Not the published rule.  Earlier blocks stay revisable until their tokens have settled; the last block may
    be shorter than the others.
    """

    ragged: ClassVar[bool] = True

    block: Tokens | None = 4
    """Columns decoded together, left to right."""
    settle: Count | None = 1
    """Updates after which a token that nobody took back stays, if all before it stay."""


@plain_dataclass(frozen=True)
class SaberRestState(SaberState):
    """Saber's state, how long tokens have stood, and when all of them were looked at."""

    stood: Ints
    """[B, G]: updates that a column has been one of those that may rest; 0 where it is not."""
    unseen: Ints
    """[B]: updates since everything that may rest was read."""


@dataclass(frozen=True)
class SaberRest(Saber):
    """Saber that lets sure tokens rest, wherever they stand.

    Not the published rule.  A token that the model has been sure of for some updates is neither computed nor
    read until the next look; its keys and values stay and are refreshed with the prompt.  It can therefore
    be taken back `rest` updates late, and no later.  A pass that computes everything looks at everything.
    """

    sure: Share = 0.99
    """Confidence that a token must have had at each of these updates."""
    ripe: Count = 2
    """Updates that it must have stood before it rests."""
    rest: CountOrNone = 4
    """The most updates it rests before it is looked at again; 0 is Saber."""

    @property
    def wakes(self) -> bool:
        """Whether a pass that computes everything reads what rests."""
        return True

    def check(self, length: int) -> None:
        if self.block is not None:
            raise BadRequest("Tokens rest in a response that is one block. Leave out the block.")
        super().check(length)

    def begin(self, prompt: Prompt, length: int) -> SaberRestState:
        base = super().begin(prompt, length)
        stood = np.zeros(base.response.shape, dtype=np.int64)
        return grow(SaberRestState, base, stood=stood, unseen=np.zeros(len(stood), dtype=np.int64))

    def canvas(self, state: SaberState) -> Canvas:
        plain = super().canvas(state)
        assert isinstance(state, SaberRestState)
        resting = np.zeros_like(plain.reads)
        resting[:, plain.open] = self.resting(state)
        return replace(plain, reads=plain.reads & ~resting, resting=resting, wakes=self.wakes)

    def resting(self, state: SaberRestState) -> Flags:
        """[B, G]: what the next pass neither computes nor reads."""
        asleep: Flags = (state.stood >= self.ripe) & (state.unseen < self.rest)[:, None]
        return asleep

    def step(self, state: SaberState, logits: Logits) -> tuple[SaberState, Decision]:
        assert isinstance(state, SaberRestState)
        after, decision = super().step(state, logits)
        assert isinstance(after, SaberRestState)
        assert decision.confidence is not None
        left_out = self.resting(state) & np.isnan(decision.confidence)
        changed = replace(
            after,
            stood=self._stood(state, after, decision.confidence, decision.remasked),
            unseen=np.where(left_out.any(axis=1), state.unseen + 1, 0),
        )
        return changed, decision

    def _stood(
        self, state: SaberRestState, after: SaberState, confidence: Reals, remasked: Flags
    ) -> Ints:
        """[B, G]: for how long each token has been sure; one that was not looked at stays what it was."""
        unread = np.isnan(confidence) & (state.stood > 0)
        with np.errstate(invalid="ignore"):
            sure = after.placed & ((confidence >= self.sure) | unread)
        return np.where(sure, state.stood + 1, 0)


@dataclass(frozen=True)
class SaberTail(SaberRest):
    """Saber that lets the tail of end marks rest: half of a short answer, sure from the first updates on.

    By default the tail wakes as a whole when its boundary falls back or the token before it is taken back:
    then the length of the answer is in question.  Only a look of its own wakes it besides.
    """

    resizes: ClassVar[bool] = False

    ripe: Count = 3
    """Updates that an end mark must have been in place before it rests."""
    rest: CountOrNone = 8
    """The most updates it rests before it is looked at again; 0 is Saber."""
    edge: CountOrNone = 2
    """End marks next to the answer that never rest."""
    wake: Literal["boundary", "look"] = "boundary"
    """What ends the rest early: a boundary that moves back, or nothing but the next look."""

    @property
    def wakes(self) -> bool:
        return False

    def resting(self, state: SaberRestState) -> Flags:
        first = state.length - (state.stood > 0).sum(axis=1)
        inside = np.arange(state.length) >= (first + self.edge)[:, None]
        asleep: Flags = inside & super().resting(state)
        return asleep

    def _stood(
        self, state: SaberRestState, after: SaberState, confidence: Reals, remasked: Flags
    ) -> Ints:
        """[B, G]: the tail's age; anew, if asked for, where it got shorter or the token before it went."""
        ends = among(after.response, state.prompt.end_marks)
        tail = np.logical_and.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
        if self.wake == "look":
            return np.where(tail, state.stood + 1, 0)
        before, length = (state.stood > 0).sum(axis=1), tail.sum(axis=1)
        place = np.maximum(state.length - before - 1, 0)
        lost = remasked[np.arange(len(place)), place] & (before < state.length)
        awake = (length < before) | lost
        stood: Ints = np.where(tail, np.where(awake[:, None], 1, state.stood + 1), 0)
        return stood
