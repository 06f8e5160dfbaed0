"""What those outside an engine hold of a request and hear of it; a listener must never block."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from archer.errors import ArcherError
from archer.results.completion import Completion
from archer.results.step import Kind, Step

if TYPE_CHECKING:
    from archer.engine.job import Job
    from archer.request.request import Request


class Handle:
    """A submitted request: wait for it, watch it, or cancel it; from any thread.

    On an event loop `await handle` is its result and `async for step in handle` its steps.  A task that is
    cancelled meanwhile cancels the request.
    """

    def __init__(
        self,
        job: Job,
        wait: Callable[[Callable[[], bool], float | None], bool],
        start: Callable[[], None],
    ) -> None:
        """`wait` lets the engine work until something is true; False where the time is up before.

        `start` gives the engine its thread, which an event loop needs.
        """
        self._job = job
        self._wait = wait
        self._start = start

    @property
    def request(self) -> Request:
        return self._job.request

    @property
    def done(self) -> bool:
        return self._job.ended.is_set()

    def result(self, timeout: float | None = None) -> Completion:
        """The completion of a request for one sample."""
        return self.results(timeout)[0]

    def results(self, timeout: float | None = None) -> list[Completion]:
        """Wait for all samples, whether or not their steps were read.

        Raises the error that ended the request, or TimeoutError.
        """
        self._job.awaited = True
        if not self._wait(self._job.ended.is_set, timeout):
            raise TimeoutError(f"The request has not ended within {timeout:g} s; it goes on.")
        if self._job.error is not None:
            raise self._job.error
        assert self._job.completions is not None
        return self._job.completions

    def __await__(self) -> Generator[Any, None, Completion]:
        """The completion of a request for one sample."""
        return self._first().__await__()

    async def samples(self) -> list[Completion]:
        """One completion per sample; raises what ended the request."""
        self._job.awaited = True
        async with self._woken() as sleep:
            while not self.done:
                await sleep()
        return self.results()

    async def _first(self) -> Completion:
        return (await self.samples())[0]

    @asynccontextmanager
    async def _woken(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Something to await until the engine has done something for this request.

        A task that is cancelled ends the request, also where it waits for something else between two steps.
        """
        loop, news, task = asyncio.get_running_loop(), asyncio.Event(), asyncio.current_task()
        assert task is not None

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has been closed, and nobody waits
                loop.call_soon_threadsafe(news.set)

        async def sleep() -> None:
            await news.wait()
            news.clear()

        def over(task: asyncio.Task[Any]) -> None:
            if task.cancelled():
                self.cancel()

        task.add_done_callback(over)
        self._job.wakers.append(wake)
        try:
            await asyncio.to_thread(self._start)
            yield sleep
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            self._job.wakers.remove(wake)
            task.remove_done_callback(over)

    @contextmanager
    def _reading(self) -> Iterator[deque[Step[Any]]]:
        """Where its steps wait for this reader; another reader takes over."""
        unread: deque[Step[Any]] = deque()
        self._job.unread = unread
        try:
            yield unread
        finally:
            if self._job.unread is unread:
                self._job.unread = None

    async def __aiter__(self) -> AsyncIterator[Step[Any]]:
        """Its steps from now on, as for a plain loop over it."""
        with self._reading() as unread:
            async with self._woken() as sleep:
                while self._job.unread is unread:
                    if unread:
                        yield unread.popleft()
                    elif not self.done:
                        await sleep()
                    elif self._job.error is not None and not unread:
                        raise self._job.error
                    elif not unread:
                        return

    def cancel(self) -> None:
        """End it at the next turn, wherever it is; a request that has ended stays as it is."""
        self._job.cancelled = True

    def __iter__(self) -> Iterator[Step[Any]]:
        """Its steps from now on.  A request whose reader stops stands still after a few of them.

        Not if its result is waited for or the engine closes: then the steps wait here, the later ones without
        logits, which are as wide as the vocabulary.

        There is one reader at a time: another one takes over, and the first ends where it is.
        """
        with self._reading() as unread:
            while True:
                self._wait(
                    lambda: bool(unread) or self.done or self._job.unread is not unread, None
                )
                if unread:
                    yield unread.popleft()
                elif self._job.unread is unread and self._job.error is not None:
                    raise self._job.error
                else:
                    return

    def __repr__(self) -> str:
        state = "ended" if self.done else "running" if self._job.walk is not None else "waiting"
        return f"<Handle of a request for {self.request.method.name!r}, {state}>"


class Listener:
    """What happens to one request; exactly one of `finished` and `failed` ends it. Override what you want."""

    hears_text = False
    """Whether `settled` is to be called; following the text has a price."""

    @property
    def restarts(self) -> bool:
        """Whether its request may begin anew, as new weights can make it: not where updates are heard."""
        own = type(self)
        return own.stepped is Listener.stepped and own.settled is Listener.settled

    def admitted(self, request: Request) -> None:
        """It has memory and takes part in turns from now on; the lengths of its gaps are known."""

    def stepped(self, step: Step[Any]) -> None:
        """One update; its rows are numbers of the request's samples."""

    def settled(self, row: int, text: str) -> None:
        """More of a sample's text is certain; the pieces add up to the final text."""

    def finished(self, completions: Sequence[Completion]) -> None:
        """All samples have ended; one that failed by itself says so in its completion."""

    def failed(self, error: ArcherError) -> None:
        """The request ended without completions."""


@dataclass(frozen=True)
class PassRecord:
    """One pass over the network."""

    seconds: float
    columns: int
    rows: int
    """Requests' rows that took part."""
    kinds: Mapping[Kind, int]
    """How these rows got their logits."""


class Observer:
    """What the engine does, for metrics; override what you want to count."""

    def passed(self, record: PassRecord) -> None:
        """A turn with its passes has been made."""

    def skipped(self, rows: int) -> None:
        """N running rows did not take part in a turn."""
