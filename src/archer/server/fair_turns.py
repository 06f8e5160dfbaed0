"""Places for work that strangers can make long: one at a time for each of them, and all take turns."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import TypeVar
from weakref import WeakValueDictionary

from archer.engine.batch import contained

T = TypeVar("T")
BESIDE = "archer-beside"
"""The name of threads that work for one request; nobody can end what a stranger's code does there."""


class FairTurns:
    """N places, shared by owners; whoever waits for one leaves nothing when he is cancelled."""

    def __init__(self, places: int) -> None:
        self._places = asyncio.Semaphore(places)
        self._owners: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, owner: str) -> AsyncIterator[None]:
        """Hold a place; of one owner's work only the first waits for one, so that owners take turns."""
        own = self._owners.setdefault(owner, asyncio.Lock())
        async with own, self._places:
            yield


async def on_a_thread(work: Callable[[], T]) -> T:
    """What the work comes to; who is cancelled stays until it is over, and keeps his place so long.

    The thread is of this work alone and a daemon: a loop that ends waits for all threads of its own pool.
    """
    working = asyncio.ensure_future(_beside(contained()(work)))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        raise


async def _beside(work: Callable[[], T]) -> T:
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()
    context = copy_context()

    def run() -> None:
        try:
            outcome.set_result(context.run(work))
        except Exception as error:  # noqa: BLE001 - told to whoever waits
            outcome.set_exception(error)

    threading.Thread(target=run, name=BESIDE, daemon=True).start()
    return await asyncio.wrap_future(outcome)
