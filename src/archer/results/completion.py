"""What a generation returns per prompt, and the tally that adds it up from the steps.

Axes: B rows, G response columns, M updates of a row, C changes of its response in all of them.  It only reads
steps; it neither decodes nor times anything itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from archer.errors import ArcherError, BadRequest
from archer.passes.canvas import Flags, Ints, Reals, among
from archer.results.step import CHANGE, REMASKED, Call, Changes, Kind, Moment, Step

if TYPE_CHECKING:
    from archer.request.request import Form, Request
    from archer.results.notebook import Trace
    from archer.results.provenance import Recipe

FinishReason = Literal["stop", "length", "error"]


@dataclass(frozen=True)
class Seconds:
    """Time spent on synchronised work, split by what it was spent on."""

    full: float = 0.0
    """Passes that computed every column."""
    cached: float = 0.0
    """Passes that reused the prompt."""
    control: float = 0.0
    """Decoder, policy and layout."""

    @property
    def total(self) -> float:
        return self.full + self.cached + self.control


@dataclass(frozen=True, eq=False, repr=False)
class History:
    """All updates of a row.  It has no tokens that were written without an update, and no logits."""

    calls: tuple[Call, ...]
    thresholds: tuple[float, ...]
    stops: tuple[int, ...]
    """Columns that the response has after each update."""
    ends: tuple[int, ...]
    """[M]: how many of the changes belong to this update and to those before."""
    changes: Changes

    @classmethod
    def of(cls, moments: Sequence[Moment]) -> History:
        changes = [each.changes for each in moments]
        return cls(
            calls=tuple(each.call for each in moments),
            thresholds=tuple(each.threshold for each in moments),
            stops=tuple(each.stop for each in moments),
            ends=tuple(np.cumsum([len(each) for each in changes]).tolist()),
            changes=np.frombuffer(b"".join(each.tobytes() for each in changes), CHANGE),
        )

    def __iter__(self) -> Iterator[Moment]:
        begins = (0, *self.ends)
        for call, threshold, stop, begin, end in zip(
            self.calls, self.thresholds, self.stops, begins, self.ends, strict=False
        ):
            yield Moment(call, threshold, stop, self.changes[begin:end])

    def __len__(self) -> int:
        return len(self.calls)


@dataclass(frozen=True)
class Completion:
    """One finished response and its cost.  With `finish_reason == "error"` it has no text and no tokens."""

    text: str | None
    """The text up to the first end-of-text or end-of-turn id; None if the model has no tokenizer.

    Where gaps were filled, the text from the first to the last of them, end marks left out.
    """
    tokens: tuple[int, ...]
    """All that was written, including ids after the end; of several gaps one after the other."""
    finish_reason: FinishReason
    """`stop`: an end id or all the answer has to be was written; `length`: neither; `error`: see `error`."""
    updates: int
    """How many updates were made."""
    full_passes: int
    cached_passes: int
    reused_passes: int
    """Updates answered by the logits of an identical question.  full + cached + reused = updates."""
    revised_positions: int
    """Positions whose placed token was taken back or replaced at least once."""
    revised_text: int
    """Those of them at which that happened to a token of the text; at the others, to end marks alone."""
    prompt_tokens: int
    seconds: Seconds
    error: str | None = None
    confidences: tuple[float | None, ...] = ()
    """For each token, how sure the decoder was when it wrote it; None where it did not look."""
    written_at: tuple[int, ...] = ()
    """For each token, the update that wrote it, counted from 1; where it was taken back, the last one."""
    history: History = field(default=History.of([]), compare=False)
    """What every update did."""
    given: tuple[int | None, ...] = ()
    """The response as it was given, None where a token was written; nothing where all of it was written."""
    parts: tuple[str, ...] = ()
    """The texts around the gaps, as they were given; none where there was no gap."""
    gaps: tuple[str, ...] = ()
    """The text of each gap."""
    opened: tuple[int, ...] = ()
    """What every accepted answer begins with; the text has it before that of `tokens`, none was decoded."""
    probed_columns: int = 0
    """Columns that were computed to find the lengths of gaps, before the first update."""
    provenance: Recipe | None = field(default=None, compare=False)
    """The method with all its settings, the seed and the model that it comes from."""
    weights_version: int = 0
    """How often the weights had been changed in place before all of it was decoded with them."""
    request: Request | None = field(default=None, compare=False)
    """The request that it answers, which `trace` and `recipe` need; pickled copies have none."""

    @classmethod
    def failed(cls, error: ArcherError, prompt_tokens: int = 0) -> Completion:
        """Of a prompt that was refused, or whose decoding ended with an error."""
        return Tally(error=error).complete(prompt_tokens)

    def __repr__(self) -> str:
        shown = f"{len(self.tokens)} ids" if self.text is None else repr(self.text)
        if self.error is not None:
            return f"Completion(error: {self.error})"
        passes = f"{self.full_passes} full and {self.cached_passes} cached passes"
        return f"Completion({shown}, {self.finish_reason}, {passes}, {self.seconds.total:.2f} s)"

    def _repr_html_(self) -> str:
        """In a notebook: the text, what it cost, and the player where it is known how the text formed."""
        if self.error is not None:
            return f"<pre>{escape(self.error)}</pre>"
        shown = " ".join(map(str, self.tokens)) if self.text is None else self.text
        passes = (("full", self.full_passes), ("cached", self.cached_passes))
        counts = ", ".join(f"{count} {kind}" for kind, count in passes)
        cost = (
            f"{self.updates} updates ({counts}), {self.seconds.total:.2f} s, {self.finish_reason}"
        )
        html = f"<pre>{escape(shown)}</pre><small>{cost}</small>"
        return html if self.request is None else html + self.trace()._repr_html_()

    def trace(self) -> Trace:
        """How it formed: `trace().html()` is the player, `trace().save(path)` a file for `archer view`."""
        from archer.results.notebook import of_completions

        if self.request is None:
            raise BadRequest(
                "This completion does not know its request, so there is nothing to watch. Keep the one "
                "that `generate` returned, or record the prompt again with `model.record`."
            )
        return of_completions(self.request, [self])

    def recipe(self) -> str:
        """Python that makes it again: `print(done.recipe())`."""
        if self.request is None or self.provenance is None:
            raise BadRequest(
                "This completion does not know its request, so there is no recipe for it. `to_dict` says by "
                "which method and model it was made."
            )
        return self.provenance.code(self.request)

    def __getstate__(self) -> dict[str, Any]:
        """Copies that go elsewhere leave the tokenizer behind, and with it the player."""
        return self.__dict__ | {"request": None}

    def first(self, tokens: int) -> Completion:
        """This completion with only the first `tokens` tokens of the response."""
        return replace(
            self,
            tokens=self.tokens[:tokens],
            confidences=self.confidences[:tokens],
            written_at=self.written_at[:tokens],
        )

    def kept(self, form: Form, counts: Sequence[int]) -> Completion:
        """This completion of a prompt with gaps with only the first tokens of each gap."""
        chosen = [
            at
            for span, count in zip(form.spans, counts, strict=True)
            for at in range(span.start, span.start + count)
        ]
        stays = set(chosen)
        number = iter(range(len(self.tokens)))
        return replace(
            self,
            tokens=tuple(self.tokens[at] for at in chosen),
            confidences=tuple(self.confidences[at] for at in chosen),
            written_at=tuple(self.written_at[at] for at in chosen),
            given=tuple(
                token for token in self.given if token is not None or next(number) in stays
            ),
        )

    def around(self, form: Form, texts: Sequence[str]) -> Completion:
        """This completion of a prompt with gaps, whose texts are these."""
        last = len(texts) - 1
        pieces = (text + form.parts[at + 1] * (at < last) for at, text in enumerate(texts))
        return replace(
            self,
            text="".join(pieces) if texts else None,
            given=(form.given or ()) if form.behind else (),
            parts=form.parts,
            gaps=tuple(texts),
            probed_columns=form.probed,
        )

    @property
    def response(self) -> tuple[int, ...]:
        """The response from the first gap on: what was given, and in the gaps what was written."""
        if not self.given:
            return self.tokens
        written = iter(self.tokens)
        return tuple(next(written) if token is None else token for token in self.given)

    @property
    def whole(self) -> str | None:
        """The text with its gaps filled, byte for byte as it was given around them."""
        if not self.parts:
            return self.text
        pairs = zip_longest(self.parts, self.gaps, fillvalue="")
        return "".join(part + text for part, text in pairs)

    @property
    def refresh_fraction(self) -> float:
        """Full passes per update."""
        return self.full_passes / self.updates if self.updates else 0.0

    @property
    def tokens_per_forward(self) -> float:
        passes = self.full_passes + self.cached_passes
        return len(self.tokens) / passes if passes else 0.0

    @property
    def passes_per_token(self) -> float:
        """Passes, full and cached, for each token that was written."""
        passes = self.full_passes + self.cached_passes
        return passes / len(self.tokens) if self.tokens else 0.0

    def states(self) -> Iterator[tuple[int | None, ...]]:
        """What was written before each update, and at the end; None for a mask.

        They are made one by one from what every update changed, so all of them together take no memory.
        Tokens that were given are left out.  A response that ended early is as long as its canvas was.
        """
        written = [at for at, token in enumerate(self.given) if token is None]
        width = max(self.history.stops, default=0)
        state: list[int | None] = [None] * (len(self.given) or width)

        def now(stop: int) -> tuple[int | None, ...]:
            return tuple([state[at] for at in written] if self.given else state[:stop])

        yield now(self.history.stops[0] if self.history.stops else 0)
        for moment in self.history:
            for change in moment.changes:
                gone = change["what"] & REMASKED
                state[change["at"]] = None if gone else int(change["token"])
            yield now(moment.stop)

    def to_dict(self, *, provenance: bool = True, per_token: bool = False) -> dict[str, Any]:
        """Plain data for JSON: text, cost and provenance, without what is kept per update.

        What is kept of each token comes with `per_token`.
        A list of completions as a table: `pandas.DataFrame([each.to_dict() for each in done])`.
        """
        plain = asdict(replace(self, history=History.of([]), request=None, provenance=None))
        opened = () if self.opened else ("opened",)
        own = () if self.given or self.parts else ("given", "parts", "gaps", "probed_columns")
        rollout = () if per_token else ("confidences", "written_at")
        version = () if per_token or self.weights_version else ("weights_version",)
        for name in ("history", "request", "provenance", *own, *opened, *rollout, *version):
            del plain[name]
        if per_token:
            plain["written_at"] = list(self.written_at)
            plain["confidences"] = list(self.confidences)
            plain["passes_per_token"] = self.passes_per_token
        known = {}
        if provenance and self.provenance is not None:
            known = {**self.provenance.to_dict(), "weights_version": self.weights_version}
        return plain | {
            "tokens": list(self.tokens),
            "refresh_fraction": self.refresh_fraction,
            "tokens_per_forward": self.tokens_per_forward,
            "seconds": asdict(self.seconds) | {"total": self.seconds.total},
            **known,
        }


@dataclass
class Tally:
    """Running sums of one row."""

    passes: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(Kind, 0))
    seconds: dict[Kind, float] = field(default_factory=lambda: dict.fromkeys(Kind, 0.0))
    control: float = 0.0
    updates: int = 0
    revised: Flags | None = None
    """[G]: positions revised so far."""
    revised_text: Flags | None = None
    """[G]: those at which a token was revised that ends nothing."""
    response: Ints | None = None
    """[G]"""
    error: ArcherError | None = None
    confidence: Reals | None = None
    """[G]: how sure the rule was of the token that stands."""
    written: Ints | None = None
    """[G]: the update that wrote it."""
    moments: list[Moment] = field(default_factory=list)
    """Of every update so far."""

    def complete(self, prompt_tokens: int) -> Completion:
        """The completion by ids alone: `Language.completion` knows where it ends and what it says."""
        failed = self.error is not None or self.response is None
        tokens = () if failed or self.response is None else tuple(self.response.tolist())
        return Completion(
            text=None,
            tokens=tokens,
            finish_reason="error" if failed else "length",
            updates=self.updates,
            full_passes=self.passes[Kind.FULL],
            cached_passes=self.passes[Kind.CACHED],
            reused_passes=self.passes[Kind.REUSED],
            revised_positions=0 if self.revised is None else int(self.revised.sum()),
            revised_text=0 if self.revised_text is None else int(self.revised_text.sum()),
            prompt_tokens=prompt_tokens,
            seconds=Seconds(
                full=self.seconds[Kind.FULL],
                cached=self.seconds[Kind.CACHED],
                control=self.control,
            ),
            error=None if self.error is None else str(self.error),
            confidences=() if self.confidence is None else _known(self.confidence[: len(tokens)]),
            written_at=() if self.written is None else tuple(self.written[: len(tokens)].tolist()),
            history=History.of(self.moments),
        )


def _known(values: Reals) -> tuple[float | None, ...]:
    return tuple(None if math.isnan(value) else value for value in values.tolist())


def add(tallies: dict[int, Tally], step: Step[Any]) -> None:
    """Fold one step into the tallies of its rows."""
    before, share = step.before, step.control / max(1, len(step.rows))
    revised = before.placed & (step.after.response != before.response)
    words = revised & ~among(before.response, before.prompt.ends) if revised.any() else revised
    moments = step.record.moments
    for index, (row, call) in enumerate(zip(step.rows, step.calls, strict=True)):
        tally = tallies[row]
        tally.passes[call.kind] += 1
        tally.seconds[call.kind] += call.seconds
        tally.control += share
        tally.updates += 1
        tally.response = step.after.result(index)
        tally.revised = _or(tally.revised, revised[index])
        tally.revised_text = _or(tally.revised_text, words[index])
        _note_written(tally, step, index)
        tally.moments.append(moments[index])
    for row, error in step.errors.items():
        tallies[row].error = error


def _or(before: Flags | None, now: Flags) -> Flags:
    return now if before is None else before | now


def _note_written(tally: Tally, step: Step[Any], index: int) -> None:
    decision = step.decision
    if tally.confidence is None or tally.written is None:
        tally.confidence = np.full(decision.tokens.shape[1], np.nan)
        tally.written = np.zeros(decision.tokens.shape[1], dtype=np.int64)
    wrote = decision.accepted[index] | decision.replaced[index]
    tally.confidence = np.where(wrote, decision.confidence[index], tally.confidence)
    tally.written = np.where(wrote, tally.updates, tally.written)
