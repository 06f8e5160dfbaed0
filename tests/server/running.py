"""A server of the bundled model in this process, and plain ways to talk to it."""

import asyncio
import functools
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeVar

from archer.errors import ArcherError
from archer.model import Model
from archer.server.lifecycle import Server
from archer.server.settings import ServerSettings

PATIENCE = 60.0
T = TypeVar("T")
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
PROBLEM = """\
Write a function to count the numbers in nums that are greater than 5.
assert solve([1, 7, 9]) == 2
assert solve([2]) == 0
def solve(nums):"""
SLOW = "llada-confidence"
"""A method that makes as many updates as there are tokens: with many of them it takes its time."""


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The objects of a stream; its last line must be the one that says so, or an error."""
        return objects(self.body.decode())


def objects(text: str) -> list[Any]:
    lines = [line for line in text.split("\n\n") if line and not line.startswith(":")]
    assert all(line.startswith("data: ") for line in lines)
    found = [json.loads(line[6:]) for line in lines if line != "data: [DONE]"]
    assert lines[-1] == "data: [DONE]" or "error" in found[-1]
    return found


class Client:
    """Talks to a server by the standard library alone."""

    patience = PATIENCE
    """Seconds for an answer."""

    def __init__(self, server: Server, key: str | None = None) -> None:
        self.server, self.port, self.key = server, server.port, key

    def under(self, key: str) -> "Client":
        """A client of the same server with a key."""
        other = copy(self)
        other.key = key
        return other

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.patience)
        own = {} if self.key is None else {"authorization": f"Bearer {self.key}"}
        try:
            connection.request(method, path, body, own | (headers or {}))
            got = connection.getresponse()
            return Reply(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())
        finally:
            connection.close()

    def get(self, path: str) -> Reply:
        return self.send("GET", path)

    def post(self, path: str, body: Any) -> Reply:
        kind = {"content-type": "application/json"}
        return self.send("POST", path, json.dumps(body).encode(), kind)

    def ask(self, text: str = PROBLEM, **fields: Any) -> Reply:
        return self.post(CHAT, chat(text, **fields))

    def raw(self, path: str, body: Any, *, receive: int | None = None) -> socket.socket:
        """A connection on which a request was sent and nothing is read."""
        made = socket.socket()
        if receive is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        made.settimeout(PATIENCE)
        made.connect(("127.0.0.1", self.port))
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        made.sendall(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        return made

    def metric(self, name: str, **labels: str) -> float:
        """A number of /metrics, summed over the labels that are not given."""
        total = 0.0
        for line in self.get("/metrics").body.decode().splitlines():
            found = re.fullmatch(rf"archer:{name}(?:{{(.*)}})? (\S+)", line)
            if found and all(
                f'{key}="{value}"' in (found[1] or "") for key, value in labels.items()
            ):
                total += float(found[2])
        return total

    def resident(self) -> int:
        """Bytes of the server's process."""
        (found,) = re.findall(
            r"^process_resident_memory_bytes (\S+)$", self.get("/metrics").body.decode(), re.M
        )
        return int(float(found))

    def balance(self) -> tuple[float, float]:
        """Accepted requests, and where they are: the two are equal at rest."""
        ends = ("request_success_total", "requests_failed_total", "requests_cancelled_total")
        there = sum(map(self.metric, (*ends, "num_requests_running", "num_requests_waiting")))
        return self.metric("requests_accepted_total"), there

    def idle(self) -> bool:
        names = ("num_requests_running", "num_requests_waiting")
        return not any(map(self.metric, names)) and not self.server.state.ready().busy


def chat(text: str = PROBLEM, **fields: Any) -> dict[str, Any]:
    return {"model": "pocket", "messages": [{"role": "user", "content": text}], **fields}


def slow(length: int = 512, **fields: Any) -> dict[str, Any]:
    """A request that takes its time."""
    extension = {"method": SLOW, **fields.pop("archer", {})}
    return chat(max_tokens=length, archer=extension, **fields)


def memory_for(model: Model, length: int) -> float:
    """GiB for one row of this length and not for two."""
    shape = model.network.shape
    columns = len(model.encode(PROBLEM)) + length
    return 4 * columns * 2 * shape.layers * shape.kv_heads * shape.head_dim * 3 / 2 / (1 << 30)


def on_a_thread(work: Callable[[], T]) -> T:
    """What this comes to on a thread without a loop: a browser leaves one on the main thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """An asynchronous test on a thread and a loop of its own, whatever else runs on this thread."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        on_a_thread(lambda: asyncio.run(test(**fixtures)))

    return run


def until(true: Callable[[], bool], seconds: float = PATIENCE) -> None:
    last = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < last, "it did not happen in time"
        time.sleep(0.01)


def settings(keys: tuple[str, ...] = (), **fields: Any) -> ServerSettings:
    """With keys as if they had been read from a file."""
    made = ServerSettings(**fields)
    made.__dict__["keys"] = keys
    return made


def running(server: Server) -> tuple[threading.Thread, list[object]]:
    """The server on a thread, and what it ends with: its exit code or its error."""
    ended: list[object] = []

    def run() -> None:
        try:
            ended.append(server.run())
        except ArcherError as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, ended


def listens(client: Client) -> bool:
    """A server whose thread or process has only just been started does not listen yet."""
    with suppress(ConnectionRefusedError):
        return client.get("/health").status == 200
    return False


@contextmanager
def serving(model: Model, *, keys: tuple[str, ...] = (), **fields: Any) -> Iterator[Client]:
    """A server on a free port; ended without mercy."""
    server = Server(lambda: model, settings(keys, **fields), port=0)
    thread, ended = running(server)
    try:
        until(lambda: server.state.serving is not None or not thread.is_alive())
        yield Client(server, keys[0] if keys else None)
    finally:
        for _ in range(2):
            server.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert ended
