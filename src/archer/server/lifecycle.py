"""From the first socket to the last signal.

The socket is bound before the model is loaded, so that /health answers at once and a taken port costs no
minutes.  The first SIGTERM or SIGINT lets what runs finish for a while, the second one does not.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from archer.engine.engine import Engine
from archer.engine.handle import Listener
from archer.errors import ArcherError, BadRequest, reason_of
from archer.model import Model
from archer.results.completion import Completion
from archer.results.step import Step
from archer.server import limits as bounds
from archer.server.access import LOOPBACK, Access, check_binding
from archer.server.app import State, create_app
from archer.server.connections import Connections, CountedSocket, limits_here
from archer.server.error_log import ErrorLog
from archer.server.fair_turns import BESIDE
from archer.server.protocol import ProtocolConfig, ServedConnection
from archer.server.serving import Serving
from archer.server.settings import ServerSettings

SIGNALS = (signal.SIGINT, signal.SIGTERM)
FLUSH_SECONDS = 2.0
"""For the last bytes of answers, after the engine has ended."""
UNREAD_MILLISECONDS = 60_000
"""After so long without a sign from the other side the kernel gives a connection up."""
UNREAD_BYTES = 128 << 10
"""What the kernel keeps for a reader that is slow."""
FIRST_SECONDS = 600.0
"""For the first update."""
CLOSE_SECONDS = 10.0
"""For the threads of a server, which end after what they are at: nobody waits for those that do not."""
CUT = 1
"""Exit code where a request was cut off."""

log = logging.getLogger("archer")


class Server:
    """A server with its model; `run` returns the exit code when it is told to stop."""

    def __init__(
        self,
        load: Callable[[], Model],
        settings: ServerSettings,
        host: str = "127.0.0.1",
        port: int = 8000,
    ) -> None:
        """Binds the socket; refuses what can be refused without the model."""
        settings.read_files()
        check_binding(host, settings)
        self._load, self._settings, self._host = load, settings, host
        self._connections = Connections(limits_here())
        self._socket = _bound(host, port, self._connections)
        self.port: int = self._socket.getsockname()[1]
        self.state = State()
        self._stop = asyncio.Event()
        self._now = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._born = time.monotonic()
        self._lost: ArcherError | None = None
        self._loading: threading.Thread | None = None
        self._closing: threading.Thread | None = None

    @property
    def still_working(self) -> bool:
        """Whether a thread loads the model, decodes or prepares a request, which `run` has not waited for."""
        if any(each.name == BESIDE for each in threading.enumerate()):
            return True
        threads = (self._loading, self._closing)
        return any(each is not None and each.is_alive() for each in threads)

    @property
    def url(self) -> str:
        host = self._host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def run(self) -> int:
        """Until a signal or `stop`."""
        return asyncio.run(self._run())

    def stop(self) -> None:
        """What a signal does; may be called on any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._on_signal)

    async def _run(self) -> int:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_reported_once(ErrorLog(log)))
        web = _Web(self._config())
        with self._signals():
            serving = asyncio.create_task(web.serve([self._socket]))
            try:
                if await self._open():
                    await self._stop.wait()
                cut = await self._drain()
            finally:
                await self._close()
                web.should_exit = True
                await serving
        if self._lost is not None:
            raise self._lost
        return CUT if cut else 0

    async def _open(self) -> bool:
        """Load the model and see one update; False when told to stop, then nobody waits for the load."""
        opened: Future[Serving] = Future()
        self._loading = threading.Thread(
            target=self._opening, args=(opened,), name="archer-loading", daemon=True
        )
        self._loading.start()
        loading = asyncio.wrap_future(opened)
        stopping = asyncio.create_task(self._stop.wait())
        either: set[asyncio.Future[Any]] = {loading, stopping}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if opened.cancel():
            return False
        serving = await loading
        self.state.serving = serving
        serving.engine.when_lost(self._without_model)
        seconds = time.monotonic() - self._born
        log.warning("%s is ready at %s after %.1f seconds.", serving.name, self.url, seconds)
        return True

    def _opening(self, opened: Future[Serving]) -> None:
        """On a thread of its own; lets go of what nobody waits for any more."""
        try:
            model = self._load()
            if model.network.all_shards is not None:
                model.network.all_shards.when_lost(self._without_model)
            if opened.cancelled():
                return
            serving = open_serving(model, self._settings, self.state)
        except BaseException as error:  # noqa: BLE001 - the loop raises it again
            with contextlib.suppress(InvalidStateError):
                opened.set_exception(error)
            return
        try:
            opened.set_result(serving)
        except InvalidStateError:
            serving.close()

    async def _drain(self) -> bool:
        """Wait for what runs, up to a limit or a second signal; whether something had to be cut off."""
        serving = self.state.serving
        self.state.stopping = True
        if serving is None:
            return False
        serving.stopping = True
        if serving.busy:
            log.warning("Stopping: %s may finish.", _requests(serving.busy))
        await self._wait(lambda: serving.busy > 0, self._settings.drain)
        if serving.busy:
            words = "was" if serving.busy == 1 else "were"
            log.warning("Stopped: %s %s cut off.", _requests(serving.busy), words)
        return bool(serving.busy)

    async def _wait(self, goes_on: Callable[[], bool], seconds: float) -> None:
        """While something goes on, up to a limit or a second signal."""
        last = time.monotonic() + seconds
        while goes_on() and time.monotonic() < last and not self._now.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await self._now.wait()

    async def _close(self) -> None:
        """Cut off what runs; a pass that does not end is left behind."""
        if self.state.serving is None:
            return
        self._closing = _closing(self.state.serving)
        await self._wait(self._closing.is_alive, CLOSE_SECONDS)
        await asyncio.to_thread(self._closing.join, FLUSH_SECONDS)
        if self._closing.is_alive():
            log.warning("Stopped: what was under way does not end by itself; it is left behind.")

    def _without_model(self, error: ArcherError) -> None:
        """A shard or the engine ended: requests fail, and the server with them.  Called on any thread."""
        self._lost = self._lost or error
        with contextlib.suppress(RuntimeError):  # the server has ended already
            self.stop()
            self.stop()

    def _on_signal(self) -> None:
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
            loop.add_signal_handler(each, self._on_signal)
        try:
            yield
        finally:
            for each in SIGNALS:
                loop.remove_signal_handler(each)

    def _config(self) -> ProtocolConfig:
        keys = self._settings.keys
        app = application(self.state, self._settings)
        return ProtocolConfig(
            self._connections,
            Access(
                app,
                keys,
                local=self._host in LOOPBACK and not keys,
                origins=self._settings.cors_origin,
            ),
            http=ServedConnection,
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=self._connections.bounds.pending,
            timeout_keep_alive=int(bounds.IDLE_SECONDS),
            timeout_graceful_shutdown=int(FLUSH_SECONDS),
        )


def application(state: State, settings: ServerSettings) -> FastAPI:
    """The routes as an operator wants them."""
    return create_app(state, with_page=settings.page, ignored=frozenset(settings.ignore))


class _Web(uvicorn.Server):
    """Leaves signals to us, because it would stop listening before anything is drained."""

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()


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


def open_serving(model: Model, settings: ServerSettings, state: State) -> Serving:
    """The model behind an engine that has made one update; raises what keeps it from doing so."""
    engine = Engine(
        model,
        budget=settings.budget,
        memory=settings.memory_bytes,
        waiting=settings.queue,
        per_owner=settings.rows_per_key if settings.keys else None,
        observer=state.metrics,
    )
    serving = Serving(model, engine, state.metrics, settings)
    try:
        engine.start()
        first_update(model, engine)
    except BaseException:
        _closing(serving).join(CLOSE_SECONDS)
        raise
    return serving


def _closing(serving: Serving) -> threading.Thread:
    """Close it on a thread that nobody has to wait for: an engine whose pass never ends cannot be closed."""
    closing = threading.Thread(target=serving.close, name="archer-closing", daemon=True)
    closing.start()
    return closing


def first_update(model: Model, engine: Engine) -> None:
    """See the engine make one update; raises what keeps it from doing so, or that it takes too long."""
    token = next(id for id in range(model.folder.shape.vocabulary) if id != model.folder.mask)
    heard = _FirstUpdate()
    handle = engine.enqueue(model.request([token]), listener=heard)
    updated = heard.made.wait(FIRST_SECONDS)
    handle.cancel()
    if not updated or not heard.over.wait(FIRST_SECONDS):
        raise ArcherError(
            f"The model did not make its first update within {FIRST_SECONDS:g} s. "
            "Use a smaller model or another device."
        )
    if heard.error is not None:
        raise heard.error


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count} requests"


def _reported_once(log: ErrorLog) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """What the event loop finds wrong, without what may stand in an error's message."""

    def report(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        kind = type(context.get("exception")).__name__
        log.error(f"The event loop reports: {context['message']} ({kind}).")

    return report


def _bound(host: str, port: int, connections: Connections) -> CountedSocket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = CountedSocket(family, socket.SOCK_STREAM)
    listening.connections = connections
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNREAD_BYTES)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MILLISECONDS)
    try:
        listening.bind((host, port))
        listening.listen()  # two can be bound to one port while neither listens
    except (OSError, OverflowError) as error:
        listening.close()
        reason = reason_of(error) if isinstance(error, OSError) else "there is no such port"
        raise BadRequest(
            f"The server cannot listen at {host} port {port}: {reason}. Choose another host or port."
        ) from error
    return listening


class AsgiApp:
    """An ASGI application; opened by whoever made it, or by the host's lifespan, which also closes it."""

    def __init__(self, load: Callable[[], Model], settings: ServerSettings) -> None:
        """Without keys it answers only to names of this machine, unless `settings.without_key`."""
        settings.read_files()
        self._load, self._settings = load, settings
        self.state = State()
        local = not settings.keys and not settings.without_key
        app = application(self.state, settings)
        self._app = Access(app, settings.keys, local, settings.cors_origin)

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
            await asyncio.to_thread(_closing(serving).join, CLOSE_SECONDS)

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
