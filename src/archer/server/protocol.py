"""HTTP on one connection: uvicorn's, with bounds on what arrives and when."""

import asyncio
from typing import Any

import h11
import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from archer.server import limits as bounds
from archer.server.access import refused
from archer.server.connections import Connections
from archer.server.refusals import Refusal

SIGNS = frozenset({"/health", "/ready", "/metrics"})
"""What a connection beyond the limits may still ask for."""


class ProtocolConfig(uvicorn.Config):
    """What every connection is handed, with the counts of all of them."""

    def __init__(self, connections: Connections, *rest: Any, **named: Any) -> None:
        super().__init__(*rest, **named)
        self.connections = connections


def signs_of_life(app: ASGIApp) -> ASGIApp:
    """The application for a connection beyond the limits: one answer, to those who ask how the server is."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["connection"] = "close"
            await send(message)

        if scope["path"] in SIGNS:
            await app(scope, receive, closing)
            return
        sentence = "Too many connections are open. Close some, or ask again in a moment."
        error = Refusal(
            503, sentence, kind="server_error", code="too_many_connections", retry_after=1
        )
        await refused(error)(scope, receive, closing)

    return answer


class BoundedConnection(h11.Connection):
    """Bounds headers that arrive at once, of which h11 measures only incomplete ones, and counts pieces."""

    _pieces = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._pieces = 0
            size = len(event.method) + len(event.target)
            size += sum(len(name) + len(value) + 4 for name, value in event.headers)
            if size > bounds.HEADERS:
                raise h11.RemoteProtocolError("The headers are too long.", error_status_hint=431)
        elif isinstance(
            event, h11.Data
        ):  # `chunk_start` is not told where a chunk's head came alone
            self._pieces += 1
            if self._pieces > bounds.PIECES:
                raise h11.RemoteProtocolError("There are too many pieces.", error_status_hint=413)
        return event


class ServedConnection(H11Protocol):
    """Closes connections that send no request for too long, also after the first, which uvicorn forgets."""

    _patience: asyncio.TimerHandle | None = None

    def __init__(self, config: ProtocolConfig, *rest: Any, **named: Any) -> None:
        super().__init__(config, *rest, **named)
        self.conn = BoundedConnection(h11.SERVER, bounds.HEADERS)
        self._all = config.connections
        self._address = ""

    def send_400_response(self, msg: str) -> None:
        """Also where an answer has begun, which uvicorn takes for impossible: then only the end is left."""
        if isinstance(self.cycle, RequestResponseCycle):
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = transport.get_extra_info("peername", ("",))[0]
        if self._all.made(self, self._address):
            self.app = signs_of_life(self.app)
        self._begin_waiting()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._between_requests():
            self._end_waiting()
            if self.conn.their_state is h11.SEND_BODY:
                self._all.begun(self, self._address)
            else:
                self._all.busy(self)
        elif self._patience is None:
            self._begin_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self._between_requests():
            self._all.idle(self, self._address)
        elif self.conn.their_state is h11.SEND_BODY:  # it came with the one before
            self._all.begun(self, self._address)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_waiting()
        self._all.gone(self, self._address)
        super().connection_lost(exc)

    def make_room(self) -> None:
        """Nothing is under way on it, or no whole request, and its place is wanted."""
        self.transport.abort()

    def _between_requests(self) -> bool:
        """There is no cycle before the first request, whatever its type says."""
        return bool(getattr(self.cycle, "response_complete", True))

    def _begin_waiting(self) -> None:
        self._patience = self.loop.call_later(bounds.HEADER_SECONDS, self._close_if_waiting)

    def _end_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _close_if_waiting(self) -> None:
        self._patience = None
        if self._between_requests():
            self.transport.abort()
