"""Places for work that strangers can make long: one at a time for each of them, and all take turns."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar
from weakref import WeakValueDictionary

from archer.engine.batch import contained

T = TypeVar("T")


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
    """What the work comes to; who is cancelled stays until it is over, and keeps his place so long."""
    working = asyncio.ensure_future(asyncio.to_thread(contained()(work)))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        raise
