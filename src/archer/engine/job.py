"""One request inside an engine: what was asked, how far it is, and who listens.

Axes: n samples; samples of a method that leaves nothing to chance are one row.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from archer.decoders.base import DecodeState
from archer.engine.footprint import kept_bytes, logits_bytes
from archer.engine.gap_length import searching
from archer.engine.handle import Listener
from archer.engine.schedule import Application, Offer
from archer.engine.walk import Walk
from archer.errors import ArcherError, BadRequest, cause_of, quoted
from archer.network.network import Transformer
from archer.passes.canvas import Canvas, Scope
from archer.results.completion import Completion, Tally, add
from archer.results.settled_text import SettledGaps, SettledText
from archer.results.step import Step
from archer.structure.constraint import Constraint

if TYPE_CHECKING:
    from archer.model import Model
    from archer.request.request import Form, Request

Priority = Literal["interactive", "batch"]
PRIORITIES: dict[Priority, int] = {"interactive": 0, "batch": 1}
MOST_SAMPLES = 100_000
"""Of one prompt."""
MOST_TOGETHER = 256
"""Drawn samples of one request, which are decoded together; `generate` asks for a few at a time."""
MOST_LOGITS = 1 << 30
"""Bytes of logits in a pass up to which samples of one prompt are put into one request."""
MOST_UNREAD = 8
"""Steps that wait for a reader; a request whose reader is behind takes no turn unless its end is awaited."""


@dataclass(frozen=True)
class Options:
    """What a request wants of the engine, beside its text."""

    n: int = 1
    """Samples."""
    stop: tuple[str, ...] = ()
    """Strings at which the text is cut."""
    ends_early: bool = False
    """Stop decoding once the visible text is final; what comes after the end is then never written."""
    priority: Priority = "interactive"
    isolated: bool = False
    """Passes of its own: bit for bit what it would get alone."""
    timeout: float | None = None
    """Seconds from submission to the end."""
    queue_timeout: float | None = None
    """Seconds from submission to the first pass."""
    since: float | None = None
    """When it was asked for, by the engine's clock, where that was before its submission."""
    owner: Hashable = None
    first: int = 0
    """Number of the first sample, for samples that go on where another request left off."""

    def __post_init__(self) -> None:
        check_samples(self.n)
        try:
            hash(self.owner)
        except TypeError as error:
            raise BadRequest(
                f"An owner cannot be told from others: {cause_of(error)}. Give a name."
            ) from error
        if self.priority not in tuple(PRIORITIES):  # equal to one, whatever it is
            raise BadRequest(
                f"There is no priority {quoted(self.priority)}. Choose {' or '.join(PRIORITIES)}."
            )
        for name in ("timeout", "queue_timeout"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and value > 0):
                raise BadRequest(
                    f"{name} must be a number of seconds above 0, not {quoted(value)}."
                )


def check_samples(n: object) -> None:
    """Refuse what is no number of samples, before anything is laid out for them."""
    if not isinstance(n, int) or not 1 <= n <= MOST_SAMPLES:
        raise BadRequest(
            f"n counts samples: a whole number from 1 to {MOST_SAMPLES}, not {quoted(n)}."
        )


def check_count(name: str, value: object) -> None:
    """Refuse a limit that lets nothing through, or that is no number; None is no limit."""
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if value is not None and not whole:
        raise BadRequest(f"{name} must be a whole number of at least 1, not {quoted(value)}.")


def as_stops(stop: str | Sequence[str]) -> tuple[str, ...]:
    """One stop string or several; refuses what could never stop anything, or would stop everything."""
    if not isinstance(stop, Iterable):
        raise BadRequest(f"stop must be text or a list of texts, not {type(stop).__name__}.")
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    for each in stops:
        if not isinstance(each, str):
            raise BadRequest(f"A stop string must be text, not {type(each).__name__}.")
        if not each:
            raise BadRequest("A stop string is empty. Give some text, or leave `stop` out.")
    return stops


def samples_together(network: Transformer, request: Request) -> int:
    """Samples of a request's only prompt that may well be one request; all where nothing is drawn.

    What they say does not depend on it.
    """
    method, (form,) = request.method, request.prompts
    if not method.decoder.draws:
        return MOST_SAMPLES
    most = min(MOST_TOGETHER, MOST_LOGITS // logits_bytes(network, method.length))
    return max(1, min(most, _updated_together(form, method.length)))


def _updated_together(form: Form, length: int) -> int:
    """Samples whose updates take no longer than that of one may."""
    constraint = form.constraint
    return constraint.together(length) if isinstance(constraint, Constraint) else MOST_TOGETHER


@dataclass(eq=False)
class Job:
    """A request; its handle sets `cancelled`, `awaited` and `unread` on any thread, turns all else."""

    model: Model
    request: Request
    options: Options
    listener: Listener
    submitted: float
    start: DecodeState
    canvas: Canvas
    """What the decoder asks at the start."""
    bytes: int
    """That it holds, or will at first."""
    most_bytes: int
    """That it may come to hold."""
    left: float
    """Columns still to compute; before anything is known, one pass over everything per token."""
    walk: Walk | None = None
    search: Generator[int, None, Request] | None = None
    """For the lengths of its gaps, while it is under way."""
    tallies: dict[int, Tally] = field(default_factory=dict)
    texts: dict[int, SettledText | SettledGaps] = field(default_factory=dict)
    passed_over: int = 0
    cancelled: bool = False
    unread: deque[Step[Any]] | None = None
    """Steps for a reader, where there is one."""
    awaited: bool = False
    """Somebody waits for its end and for no step."""
    completions: list[Completion] | None = None
    error: ArcherError | None = None
    ended: threading.Event = field(default_factory=threading.Event)
    wakers: list[Callable[[], None]] = field(default_factory=list)
    """What event loops want to be called by after every update and at the end; they must not block."""
    version: int = 0
    """Of the weights that decode it."""
    unsized: Request | None = None
    """The request before the lengths of its gaps were found, where they were to be found."""

    @classmethod
    def of(
        cls, model: Model, request: Request, options: Options, listener: Listener, now: float
    ) -> Job:
        """Make everything that needs no device; refuses stop strings without a tokenizer."""
        (form,) = request.prompts
        method = request.method
        language = request.language
        if options.stop and language.text is None:
            raise BadRequest(f"{language.model!r} has no tokenizer, so it knows no stop strings.")
        rows = options.n if method.decoder.draws else 1
        if rows > MOST_TOGETHER:
            raise BadRequest(
                f"n = {rows} drawn samples of one request are too many: at most {MOST_TOGETHER}. "
                "Submit several requests, or call generate, which does."
            )
        together = _updated_together(form, method.length)
        if rows > together:
            raise BadRequest(
                f"n = {rows} drawn samples of what this answer has to be are too many for one request: an "
                f"update of all of them would take too long. At most {together} fit. Submit several "
                "requests, or call generate, which does."
            )
        laid = language.prompt(form, request.seed, rows, options.first)
        start = method.decoder.start(laid, method.length)
        canvas = method.decoder.canvas(start)
        job = cls(
            model=model,
            request=request,
            options=options,
            listener=listener,
            submitted=now,
            start=start,
            canvas=canvas,
            bytes=kept_bytes(model.network, method.policy, canvas),
            most_bytes=kept_bytes(model.network, method.policy, replace(canvas, stops=None)),
            left=float(canvas.rows * canvas.extent * int(start.stops.max())),
        )
        job.tallies = {row: Tally() for row in range(rows)}
        if language.text is not None and (job.ends_early or listener.hears_text):
            job.texts = {row: _settled_text(request, options.stop) for row in range(rows)}
        return job

    @property
    def form(self) -> Form:
        """Its prompt."""
        return self.request.prompts[0]

    @property
    def rows(self) -> int:
        return len(self.tallies)

    @property
    def most_read(self) -> int:
        """Columns whose logits one of its passes may make: of a canvas that grows, all it may grow to."""
        method = self.request.method
        everything = method.decoder.reads is Scope.RESPONSE or self.canvas.wakes
        return max(int(self.canvas.reads.sum()), everything * self.rows * method.length)

    @property
    def ends_early(self) -> bool:
        return bool(self.options.stop) or self.options.ends_early

    def probe(self, network: Transformer) -> int | None:
        """One pass of the search for the lengths of its gaps: its columns, None where they are known."""
        self.unsized = self.request
        self.search = self.search or searching(network, self.request)
        try:
            return next(self.search)
        except StopIteration as end:
            self.search, self.request = None, end.value
        request, method = self.request, self.request.method
        laid = request.language.prompt(self.form, request.seed, self.rows, self.options.first)
        self.start = method.decoder.start(laid, method.length)
        self.canvas = method.decoder.canvas(self.start)
        self.bytes = kept_bytes(network, method.policy, self.canvas)
        for row in self.texts:
            self.texts[row] = _settled_text(self.request, self.options.stop)
        return None

    def begin(self, network: Transformer) -> Walk:
        """Give it memory."""
        self.version = self.model.weights_version
        self.request = replace(self.request, language=self.model.language)
        return Walk(network, self.request.method, self.start, canvas=self.canvas)

    @property
    def may_restart(self) -> bool:
        """Nobody has heard anything of it that another beginning could belie."""
        return self.unread is None and self.listener.restarts

    def restart(self) -> None:
        """As if it had never run."""
        self.walk = self.search = None
        if self.unsized is not None:
            self.request, self.bytes = self.unsized, self.most_bytes
        self.tallies = {row: Tally() for row in self.tallies}
        self.texts = {row: _settled_text(self.request, self.options.stop) for row in self.texts}

    def application(self, now: float) -> Application[Job]:
        if self.walk is not None:
            self.left = self.walk.columns_left
        return Application(
            tag=self,
            waited=now - self.submitted,
            left=self.left,
            priority=PRIORITIES[self.options.priority],
            passed_over=self.passed_over,
            bytes=self.bytes,
            rows=self.rows,
            owner=self.options.owner,
        )

    def offer(self, now: float) -> Offer[Job]:
        """For its next pass; one that looks for the lengths of its gaps makes it alone."""
        walk = self.walk
        if walk is not None:
            self.left = walk.columns_left
        return Offer(
            tag=self,
            waited=now - self.submitted,
            left=self.left,
            priority=PRIORITIES[self.options.priority],
            passed_over=self.passed_over,
            columns=self.canvas.extent if walk is None else walk.next_columns,
            isolated=walk is None or self.options.isolated,
            owner=self.options.owner,
        )

    @property
    def reader_is_behind(self) -> bool:
        unread = self.unread  # once: its reader may go away meanwhile
        return unread is not None and not self.awaited and len(unread) >= MOST_UNREAD

    def take(self, step: Step[Any]) -> None:
        """Fold a step in and tell whoever listens."""
        add(self.tallies, step)
        walk = self.walk
        if walk is not None and not walk.done and walk.pending.canvas.extent != step.canvas.extent:
            policy = self.request.method.policy
            self.bytes = kept_bytes(self.model.network, policy, walk.pending.canvas)
        self.listener.stepped(step)
        if self.texts:
            settled, columns = self.request.method.decoder.settled(step.after), step.after.wanted
            for index, row in enumerate(step.rows):
                here = np.s_[index, : min(columns, int(step.after.stops[index]))]
                new = self.texts[row].feed(step.after.response[here], settled[here])
                if new and self.listener.hears_text:
                    for sample in self._samples_of(row):
                        self.listener.settled(sample, new)
        unread = self.unread
        if unread is not None:
            room = len(unread) < MOST_UNREAD
            rows = [row.apart() for row in step.logits.rows] if room else []
            unread.append(step.with_rows(rows))
        self._wake()

    def _wake(self) -> None:
        for wake in tuple(self.wakers):
            wake()

    @property
    def over(self) -> bool:
        """Every sample has ended, or nothing of its text can change any more."""
        assert self.walk is not None
        if self.walk.done or not self.texts or not self.ends_early:
            return self.walk.done
        return all(self.texts[row].stopped for row in self.walk.rows)

    def finish(self) -> None:
        """Make the completions and hand them out."""
        completions = [
            replace(
                self._completion(row),
                request=self.request,
                provenance=self.model.provenance(
                    self.request, self.options.first + row, self.options.stop
                ),
            )
            for row in range(self.rows)
        ]
        self.completions = [
            completions[row] for row in range(self.rows) for _ in self._samples_of(row)
        ]
        self._close()
        self.ended.set()
        self._wake()
        self.listener.finished(self.completions)

    def fail(self, error: ArcherError) -> None:
        self.error = error
        self._close()
        self.ended.set()
        self._wake()
        self.listener.failed(error)

    def _close(self) -> None:
        """Let go of memory."""
        self.walk = self.search = None

    def _samples_of(self, row: int) -> Sequence[int]:
        """Samples that a row stands for."""
        return range(self.options.n) if self.rows == 1 else (row,)

    def _completion(self, row: int) -> Completion:
        done = self._completed(row)
        opened = () if done.finish_reason == "error" else self.form.opened
        return replace(done, weights_version=self.version, opened=opened)

    def _completed(self, row: int) -> Completion:
        tally, text = self.tallies[row], self.texts.get(row)
        prompt_tokens = self.form.prompt_tokens
        if text is None or not text.stopped or not self.ends_early or tally.error is not None:
            return self.request.language.completion(tally, prompt_tokens, self.form)
        whole = tally.complete(prompt_tokens)
        if isinstance(text, SettledGaps):
            if not text.cut:
                return self.request.language.completion(tally, prompt_tokens, self.form)
            filled = whole.around(self.form, text.texts).kept(self.form, text.counts)
            return replace(filled, finish_reason="stop")
        return replace(whole.first(text.tokens), text=text.text, finish_reason="stop")


def _settled_text(request: Request, stop: tuple[str, ...]) -> SettledText | SettledGaps:
    (form,) = request.prompts
    return (
        SettledGaps(request.language, form, stop)
        if form.lengths
        else SettledText(request.language, stop, form.opening)
    )
