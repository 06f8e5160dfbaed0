"""From the engine's thread to the event loop: what happened to the rows of one HTTP request.

The engine never waits here.  What a slow reader has not taken is merged: deltas become one delta, and updates
beyond a backlog become one event that tells the response they led to.  Updates in quick succession are taken
together: waking the loop costs more than the event, and nobody watches faster than a screen.
"""

import asyncio
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from archer.errors import ArcherError
from archer.request.request import Request
from archer.results.completion import Completion
from archer.results.step import StepRecord


@dataclass(frozen=True)
class Admitted:
    """A request with the lengths of its gaps, where they had to be found; before all its updates."""

    request: Request


@dataclass(frozen=True)
class Stepped:
    """One update of the rows of a request."""

    first: int
    """The number of the request's first row among all rows that the client asked for."""
    record: StepRecord


@dataclass(frozen=True)
class Skipped:
    """Updates of a row that its reader was too slow for."""

    row: int
    count: int
    update: int
    """The last of them."""
    response: tuple[int, ...]
    """After it."""


@dataclass(frozen=True)
class Delta:
    """Text that stays."""

    row: int
    text: str


@dataclass(frozen=True)
class Finished:
    first: int
    completions: Sequence[Completion]
    columns: int
    """Columns computed for them."""


@dataclass(frozen=True)
class Failed:
    error: ArcherError


Item = Admitted | Stepped | Skipped | Delta | Finished | Failed


PAUSE = 0.05
"""Seconds after updates were taken in which further updates wake nobody; text and ends always do."""


class Outbox:
    """What is to be told, in order.  `post` may be called on any thread, the rest on the loop's."""

    def __init__(self, backlog: int, pause: float = PAUSE) -> None:
        self._loop = asyncio.get_running_loop()
        self._backlog, self._pause = backlog, pause
        self._lock = threading.Lock()
        self._items: list[Item] = []
        self._updates = 0
        self._filled = asyncio.Event()
        self._pausing: asyncio.TimerHandle | None = None

    def post(self, item: Item) -> None:
        with self._lock:
            self._put(item)
            waits = self._pausing is not None and isinstance(item, Stepped)
        if not waits:
            with suppress(RuntimeError):  # the loop is gone, and its clients with it
                self._loop.call_soon_threadsafe(self._filled.set)

    async def take(self) -> list[Item]:
        """Everything that has happened since; waits for something to happen."""
        while True:
            await self._filled.wait()
            self._filled.clear()
            with self._lock:
                items, updates = self._items, self._updates
                self._items, self._updates = [], 0
                if updates:
                    self._begin_pause()
            if items:
                return items

    def _put(self, item: Item) -> None:
        last = self._items[-1] if self._items else None
        if isinstance(item, Delta) and isinstance(last, Delta) and item.row == last.row:
            self._items[-1] = Delta(item.row, last.text + item.text)
        else:
            self._items.append(item)
        self._updates += isinstance(item, Stepped)
        if self._updates > self._backlog:
            self._items = merged(self._items)
            self._updates = 0

    def _begin_pause(self) -> None:
        if self._pausing is not None:
            self._pausing.cancel()
        self._pausing = self._loop.call_later(self._pause, self._end_pause)

    def _end_pause(self) -> None:
        with self._lock:
            self._pausing = None
            waiting = bool(self._items)
        if waiting:
            self._filled.set()


def merged(items: Iterable[Item]) -> list[Item]:
    """The same with one item per row in the place of all its updates, and one of all its text."""
    skipped: dict[int, Skipped] = {}
    deltas: dict[int, Delta] = {}
    admitted: list[Item] = []
    rest: list[Item] = []
    for item in items:
        match item:
            case Stepped(first, record):
                for place, row in enumerate(record.rows):
                    response = tuple(record.response[place].tolist())
                    before = skipped.get(first + row)
                    count = 1 + (0 if before is None else before.count)
                    update = record.updates[place]
                    skipped[first + row] = Skipped(first + row, count, update, response)
            case Skipped():
                skipped[item.row] = item
            case Admitted():
                admitted.append(item)
            case Delta(row, text):
                earlier = deltas[row].text if row in deltas else ""
                deltas[row] = Delta(row, earlier + text)
            case _:
                rest.append(item)
    return [*admitted, *skipped.values(), *deltas.values(), *rest]
