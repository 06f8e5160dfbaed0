"""From the first socket to the last signal.

The socket is bound before the model is loaded, so that /health answers at once and a taken port costs no
minutes.  The first SIGTERM or SIGINT lets what runs finish for a while, the second one does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from archer.errors import ArcherError, BadRequest
from archer.server import limits as bounds
from archer.server.access import LOOPBACK, Access, check_binding
from archer.server.app import State, create_app
from archer.server.limits import Limits
from archer.server.serving import Serving
from archer.service.engine import Engine
from archer.service.listener import Listener

if TYPE_CHECKING:
    from archer.completion import Completion
    from archer.engine.step import Step
    from archer.model import Model

SIGNALS = (signal.SIGINT, signal.SIGTERM)
FLUSH_SECONDS = 2.0
"""For the last bytes of answers, after the engine has ended."""
UNREAD_MILLISECONDS = 60_000
"""After so long without a sign from the other side the kernel gives a connection up."""
UNREAD_BYTES = 128 << 10
"""What the kernel keeps for a reader that is slow."""
CUT = 1
"""Exit code where a request was cut off."""

log = logging.getLogger("archer")


@dataclass(frozen=True)
class Setup:
    """All that an operator chooses besides the model."""

    host: str = "127.0.0.1"
    port: int = 8000
    keys: tuple[str, ...] = ()
    without_key: bool = False
    page: bool = True
    budget: int | None = None
    memory: int | None = None
    limits: Limits = field(default_factory=Limits)


class Server:
    """A server with its model; `run` returns the exit code when it is told to stop."""

    def __init__(self, load: Callable[[], Model], setup: Setup) -> None:
        """Binds the socket; refuses what can be refused without the model."""
        check_binding(setup.host, setup.keys, setup.without_key)
        self._load, self._setup = load, setup
        self._socket = _bound(setup.host, setup.port)
        self.port: int = self._socket.getsockname()[1]
        self.state = State()
        self._stop = asyncio.Event()
        self._now = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._born = time.monotonic()

    @property
    def url(self) -> str:
        host = self._setup.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def run(self) -> int:
        """Until a signal or `stop`."""
        return asyncio.run(self._run())

    def stop(self) -> None:
        """What a signal does; may be called on any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._told)

    async def _run(self) -> int:
        self._loop = asyncio.get_running_loop()
        web = _Web(self._config())
        with self._signals():
            serving = asyncio.create_task(web.serve([self._socket]))
            try:
                if await self._open():
                    await self._stop.wait()
                cut = await self._drain()
            finally:
                await asyncio.to_thread(self._close)
                web.should_exit = True
                await serving
        return CUT if cut else 0

    async def _open(self) -> bool:
        """Load the model and see it make one update; False when told to stop meanwhile."""
        loading = asyncio.create_task(asyncio.to_thread(self._load))
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({loading, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not loading.done():
            return False
        model = await loading
        setup, limits = self._setup, self._setup.limits
        engine = Engine(
            model,
            budget=setup.budget,
            memory=setup.memory,
            waiting=limits.queue,
            per_owner=limits.rows_per_key if setup.keys else None,
            observer=self.state.metrics,
        )
        serving = Serving(model, engine, self.state.metrics, limits)
        await asyncio.to_thread(engine.start)
        await asyncio.to_thread(first_update, model, engine)
        self.state.serving = serving
        seconds = time.monotonic() - self._born
        log.warning("%s is ready at %s after %.1f seconds.", serving.name, self.url, seconds)
        return True

    async def _drain(self) -> bool:
        """Wait for what runs, up to a limit or a second signal; whether something had to be cut off."""
        serving = self.state.serving
        self.state.stopping = True
        if serving is None:
            return False
        serving.stopping = True
        last = time.monotonic() + self._setup.limits.drain_seconds
        if serving.busy:
            log.warning("Stopping: %d requests may finish.", serving.busy)
        while serving.busy and time.monotonic() < last and not self._now.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await self._now.wait()
        if serving.busy:
            log.warning("Stopped: %d requests were cut off.", serving.busy)
        return bool(serving.busy)

    def _close(self) -> None:
        if self.state.serving is not None:
            self.state.serving.close()

    def _told(self) -> None:
        if self._stop.is_set():
            self._now.set()
        self._stop.set()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Only the main thread hears signals; elsewhere, as in tests, there is `stop`."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for each in SIGNALS:
            loop.add_signal_handler(each, self._told)
        try:
            yield
        finally:
            for each in SIGNALS:
                loop.remove_signal_handler(each)

    def _config(self) -> uvicorn.Config:
        setup = self._setup
        app = create_app(self.state, with_page=setup.page)
        local = setup.host in LOOPBACK and not setup.keys
        return uvicorn.Config(
            Access(app, setup.keys, local),
            http=_Protocol,
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=bounds.CONNECTIONS,
            timeout_keep_alive=int(bounds.IDLE_SECONDS),
            timeout_graceful_shutdown=int(FLUSH_SECONDS),
            h11_max_incomplete_event_size=bounds.HEADERS,
        )


class _Web(uvicorn.Server):
    """Leaves signals to us, because it would stop listening before anything is drained."""

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()


class _Protocol(H11Protocol):
    """Closes connections that never send a request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(bounds.HEADER_SECONDS, self._close_if_silent)

    def _close_if_silent(self) -> None:
        if self.cycle is None:  # as it is before the first request
            self.transport.abort()  # type: ignore[unreachable]


class _FirstUpdate(Listener):
    """Listens to the request that shows that the engine works."""

    def __init__(self) -> None:
        self.made = threading.Event()
        self.over = threading.Event()
        self.error: ArcherError | None = None

    def stepped(self, step: Step[Any]) -> None:
        self.made.set()

    def finished(self, completions: Sequence[Completion]) -> None:
        self.over.set()

    def failed(self, error: ArcherError) -> None:
        """An error before the first update is one; afterwards it is the cancellation."""
        self.error = None if self.made.is_set() else error
        self.made.set()
        self.over.set()


def first_update(model: Model, engine: Engine) -> None:
    """See the engine make one update; raises what keeps it from doing so."""
    token = next(id for id in range(model.folder.shape.vocabulary) if id != model.folder.mask)
    heard = _FirstUpdate()
    handle = engine.enqueue(model.request([token]), listener=heard)
    heard.made.wait()
    handle.cancel()
    heard.over.wait()
    if heard.error is not None:
        raise heard.error


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNREAD_BYTES)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MILLISECONDS)
    try:
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        reason = error.strerror if isinstance(error, OSError) else "there is no such port"
        raise BadRequest(
            f"The server cannot listen at {host} port {port}: {reason}. Choose another --host or --port."
        ) from error
    return made
