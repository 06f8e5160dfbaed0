"""Many prompts to the end, in bounded memory: what `Model.generate` does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from archer.engine.engine import Engine
from archer.engine.handle import Handle
from archer.engine.job import Options, check_count, check_samples
from archer.results.completion import Completion

if TYPE_CHECKING:
    from archer.model import Model
    from archer.request import Request

TOGETHER = 8
"""Samples of one prompt that run as one request at the most."""
AHEAD = 2
"""Default amount of work in flight, as a multiple of the columns of a pass."""


@dataclass(frozen=True)
class _Samples:
    """Samples of one prompt that are asked for at once, and where they belong in the results."""

    request: Request
    first: int
    places: tuple[int, ...]
    rows: int
    """1 where nothing is drawn: all samples are the same then."""

    @property
    def kind(self) -> tuple[int, int]:
        """Samples of one kind hold equally much memory."""
        (prompt,) = self.request.prompts
        return len(prompt), self.rows

    def options(self, stop: tuple[str, ...]) -> Options:
        return Options(n=len(self.places), stop=stop, first=self.first)


def generate(
    model: Model,
    request: Request,
    *,
    n: int = 1,
    stop: tuple[str, ...] = (),
    batch: int | None = None,
    memory: int | None = None,
    progress: bool = False,
) -> list[Completion]:
    """`n` completions for each prompt of the request, in order; at most `batch` rows run at a time."""
    check_count("batch", batch)
    check_samples(n)
    engine = Engine(model, memory=memory)
    rows = batch or max(1, AHEAD * engine.budget // request.method.length)
    waiting = deque(_together(request, n, rows))
    first = {samples.kind: samples for samples in reversed(waiting)}
    prepared = {
        kind: engine.prepared(samples.request, samples.options(stop))
        for kind, samples in first.items()
    }
    done: dict[int, Completion] = {}
    running: deque[tuple[_Samples, Handle]] = deque()
    with _bar(n * len(request.prompts), progress) as made:
        while waiting or running:
            while waiting and (not running or _rows(running) + waiting[0].rows <= rows):
                samples = waiting.popleft()
                job = prepared.pop(samples.kind, None)
                job = job or engine.prepared(samples.request, samples.options(stop))
                running.append((samples, engine.take(job)))
            engine.turn()
            for samples, handle in [each for each in running if each[1].done]:
                running.remove((samples, handle))
                done.update(zip(samples.places, handle.results(), strict=True))
                made(len(samples.places))
    return [done[place] for place in range(n * len(request.prompts))]


def _rows(running: Sequence[tuple[_Samples, Handle]]) -> int:
    return sum(samples.rows for samples, _ in running)


def _together(request: Request, n: int, most: int) -> Iterator[_Samples]:
    """Equal prompts together, each sample with the number it has among them; at most `most` rows each."""
    draws = request.method.decoder.draws
    places: dict[tuple[int, ...], list[int]] = {}
    for at, prompt in enumerate(request.prompts):
        places.setdefault(prompt, []).extend(range(at * n, (at + 1) * n))
    for prompt, own in places.items():
        together = min(TOGETHER, most) if draws else len(own)
        for first in range(0, len(own), together):
            some = tuple(own[first : first + together])
            yield _Samples(request.only(prompt), first, some, len(some) if draws else 1)


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
