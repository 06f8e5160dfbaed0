"""The application for other hosts of ASGI applications: it brings its model with it.

`archer serve` is a host of its own, with sockets and signals. Here the host has these; the application is the
same, behind the same door.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

from archer.errors import ArcherError
from archer.server.access import Access
from archer.server.app import State, create_app
from archer.server.lifecycle import open_serving
from archer.server.settings import ServerSettings

if TYPE_CHECKING:
    from archer.model import Model


class AsgiApp:
    """An ASGI application; opened by whoever made it, or by the host's lifespan, which also closes it."""

    def __init__(self, load: Callable[[], Model], settings: ServerSettings) -> None:
        """Without keys it answers only to names of this machine, unless `settings.without_key`."""
        settings.read_files()
        self._load, self._settings = load, settings
        self.state = State()
        local = not settings.keys and not settings.without_key
        self._app = Access(create_app(self.state, with_page=settings.page), settings.keys, local)

    async def open(self) -> None:
        """Load the model and see it make one update; raises what keeps it from doing so."""
        model = await asyncio.to_thread(self._load)
        self.state.serving = await asyncio.to_thread(
            open_serving, model, self._settings, self.state
        )

    async def close(self) -> None:
        """Cut off what runs; the host has waited for it, if it wanted to."""
        self.state.stopping = True
        serving, self.state.serving = self.state.serving, None
        if serving is not None:
            serving.stopping = True
            await asyncio.to_thread(serving.close)

    def check(self) -> None:
        """Raise unless there is a model and its engine runs."""
        serving = self.state.serving
        if serving is None or not serving.engine.alive:
            raise ArcherError("The engine does not run.")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await self._app(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            if self.state.serving is None:
                await self.open()
        except ArcherError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})
