"""Requests by an engine without a thread: many prompts to their end in bounded memory, or step by step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from archer.engine.engine import Engine
from archer.engine.gap_length import sized
from archer.engine.handle import Handle, Listener
from archer.engine.job import Job, Options, check_count, check_samples, samples_together
from archer.errors import ArcherError, numbered
from archer.machine.threads import computing
from archer.results.completion import Completion
from archer.results.step import Step

if TYPE_CHECKING:
    from archer.model import Model
    from archer.request.request import Form, Request

TOGETHER = 8
"""Samples of one prompt that run as one request at the most."""
AHEAD = 2
"""Default amount of work in flight, as a multiple of the columns of a pass."""


@dataclass(frozen=True)
class Samples:
    """Samples of one prompt that are asked for at once, and where they belong in the results."""

    request: Request
    places: tuple[int, ...]
    rows: int
    """1 where nothing is drawn: all samples are the same then."""
    options: Options
    listener: Listener | None = None

    @property
    def kind(self) -> tuple[int, int, int]:
        """Samples of one kind hold equally much memory."""
        (prompt,) = self.request.prompts
        given = len(prompt.prefix) + len(prompt.behind)
        return given, self.request.method.length, self.rows

    def prepared(self, engine: Engine) -> Job:
        return engine.prepared(self.request, self.options, self.listener)


def generate(
    model: Model,
    request: Request,
    *,
    n: int = 1,
    stop: tuple[str, ...] = (),
    batch: int | None = None,
    memory: int | None = None,
    progress: bool = False,
    keeps_errors: bool = False,
) -> list[Completion]:
    """`n` completions for each prompt of the request, in order; at most `batch` rows run at a time.

    An error is raised with the number of its prompt, or where `keeps_errors` stands in its completions.
    """
    check_count("batch", batch)
    check_samples(n)
    engine = Engine(model, memory=memory)
    rows = batch or max(1, AHEAD * engine.budget // request.method.length)
    draws = request.method.decoder.draws
    most = min(TOGETHER, rows) if draws else None
    waiting = deque(_together(model, request, n, most, stop))

    def failed(samples: Samples, error: ArcherError) -> Completion:
        named = numbered(error, samples.places[0] // n, len(request.prompts))
        if not keeps_errors:
            raise named from (None if named is error else error)
        (prompt,) = samples.request.prompts
        return Completion.failed(named, prompt.prompt_tokens)

    return completed(engine, waiting, rows, failed, progress=progress)


OnFailure = Callable[["Samples", ArcherError], Completion]
"""What a sample returns that was refused or failed; raises where that ends all of them."""


def ends_all(samples: Samples, error: ArcherError) -> Completion:
    """An error of one is an error of all."""
    raise error


def completed(
    engine: Engine,
    waiting: deque[Samples],
    rows: int,
    failed: OnFailure = ends_all,
    *,
    progress: bool = False,
) -> list[Completion]:
    """What all of them return, by place; at most N `rows` run at a time, or as many as one of them has.

    One of each kind is prepared before anything runs, so that what can be refused is refused at once.
    """
    first: dict[tuple[int, int, int], Samples] = {}
    for samples in waiting:
        first.setdefault(samples.kind, samples)
    total = sum(len(samples.places) for samples in waiting)
    done: dict[int, Completion] = {}
    running: deque[tuple[Samples, Handle]] = deque()

    @contextmanager
    def concerning(samples: Samples) -> Iterator[None]:
        try:
            yield
        except ArcherError as error:
            done.update(dict.fromkeys(samples.places, failed(samples, error)))

    prepared = {}
    for kind, samples in first.items():
        with concerning(samples):
            prepared[kind] = samples.prepared(engine)
    with _bar(total, progress) as advance:
        while waiting or running:
            while waiting and (not running or _rows(running) + waiting[0].rows <= rows):
                samples = waiting.popleft()
                job = prepared.pop(samples.kind, None)
                with concerning(samples):
                    running.append((samples, engine.take(job or samples.prepared(engine))))
            engine.turn()
            for samples, handle in [each for each in running if each[1].done]:
                running.remove((samples, handle))
                with concerning(samples):
                    done.update(zip(samples.places, handle.results(), strict=True))
                advance(len(samples.places))
    return [done[place] for place in range(total)]


def _rows(running: Sequence[tuple[Samples, Handle]]) -> int:
    return sum(samples.rows for samples, _ in running)


def _together(
    model: Model, request: Request, n: int, most: int | None, stop: tuple[str, ...] = ()
) -> Iterator[Samples]:
    """Samples of equal prompts together, each with the number it has among them; at most `most`, or all."""
    draws = request.method.decoder.draws
    places: dict[Form, list[int]] = {}
    for at, prompt in enumerate(request.prompts):
        places.setdefault(prompt, []).extend(range(at * n, (at + 1) * n))
    for prompt, own in places.items():
        one = request.only(prompt)
        together = min(most or len(own), samples_together(model.network, one))
        for first in range(0, len(own), together):
            some = tuple(own[first : first + together])
            options = Options(n=len(some), stop=stop, first=first)
            yield Samples(one, some, len(some) if draws else 1, options)


@contextmanager
def _bar(total: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """What to call with the number of completions that have been made."""
    if not shown:
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=total)
        yield lambda count: progress.advance(task, count)


class Stream:
    """The steps of a request; `finish` returns the results.

    A step is one update of one prompt, and its row is the place of that prompt in the request.  The updates
    of a prompt come in order.  Several prompts share passes and wait for memory as in `generate`, so one of
    them may be ahead of another; what each of them says does not depend on the others.
    """

    def __init__(self, model: Model, request: Request) -> None:
        with computing(model.threads):
            request = sized(model.network, request)
        self.request = request
        self._engine = Engine(model)
        self._unread: deque[Step[Any]] = deque()
        self._handles = []
        for samples in sorted(_together(model, request, 1, 1), key=lambda each: each.places):
            reader = _StepReader(samples.places[0], self._unread)
            self._handles.append(self._engine.enqueue(samples.request, samples.options, reader))
        self._steps = self._run()

    def __repr__(self) -> str:
        prompts, method = len(self.request.prompts), self.request.method.name
        ended = sum(handle.done for handle in self._handles)
        return f"<Stream of {prompts} prompts by {method!r}, {ended} ended>"

    def __iter__(self) -> Iterator[Step[Any]]:
        return self._steps

    def __next__(self) -> Step[Any]:
        return next(self._steps)

    def finish(self) -> list[Completion]:
        """Run what is left to run; one completion per prompt, in order."""
        for _ in self._steps:
            pass
        return [handle.result() for handle in self._handles]

    def _run(self) -> Iterator[Step[Any]]:
        going = list(self._handles)
        while going:
            self._engine.turn()
            while self._unread:
                yield self._unread.popleft()
            for handle in going:
                if handle.done:
                    handle.result()  # raises what ended it
            going = [handle for handle in going if not handle.done]


class _StepReader(Listener):
    """Puts the steps of one prompt where the stream finds them."""

    def __init__(self, place: int, unread: deque[Step[Any]]) -> None:
        self._place, self._unread = place, unread

    def stepped(self, step: Step[Any]) -> None:
        self._unread.append(step.counted_from(self._place))
