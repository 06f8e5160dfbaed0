"""What one connection may send before anybody has read a body: headers by size, chunks by count."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import h11
import pytest

from archer.errors import ArcherError
from archer.model import Model
from archer.server import limits
from archer.server.lifecycle import Server
from archer.server.protocol import BoundedConnection
from server.running import Client, listens, running, settings, until

START = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n"
CHUNKED = START + b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
ONE = b"1\r\n \r\n"


def read(content: bytes, at_once: int) -> BoundedConnection:
    """A connection that was sent this in pieces and has been asked for all events."""
    connection = BoundedConnection(h11.SERVER, limits.HEADERS)
    for place in range(0, len(content), at_once):
        connection.receive_data(content[place : place + at_once])
        while connection.next_event() not in (h11.NEED_DATA, h11.PAUSED):
            pass
    return connection


@pytest.mark.parametrize("at_once", [7, 4096, 1 << 20])
@pytest.mark.parametrize(
    "filler", [b"x: %s\r\n" % (b"y" * 20_000), b"a: b\r\n" * 4000], ids=["one", "many"]
)
def test_headers_are_bounded_however_they_arrive(filler: bytes, at_once: int) -> None:
    with pytest.raises(h11.RemoteProtocolError):
        read(START + filler + b"\r\n", at_once)
    with pytest.raises(h11.RemoteProtocolError):
        read(b"GET /" + b"z" * 20_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n", at_once)
    few = filler[: limits.HEADERS // 2].rpartition(b"\r\n")[0]
    whole = START + (few + b"\r\n" if few else b"x: y\r\n") + b"\r\n"
    assert read(whole, at_once).their_state is h11.DONE


@pytest.mark.parametrize(("size", "at_once"), [(1, 5), (1, 1 << 20), (3, 4096), (200, 1 << 20)])
def test_chunks_are_counted_whatever_they_hold(size: int, at_once: int) -> None:
    one = b"%x\r\n%s\r\n" % (size, b" " * size)
    assert (
        read(CHUNKED + one * (limits.PIECES // 2) + b"0\r\n\r\n", at_once).their_state is h11.DONE
    )
    with pytest.raises(h11.RemoteProtocolError, match="too many pieces"):
        read(CHUNKED + one * (limits.PIECES + 1), at_once)


@contextmanager
def loading() -> Iterator[Client]:
    """A server whose model never comes, which is enough for what is refused before."""
    never = threading.Event()

    def load() -> Model:
        never.wait()
        raise ArcherError("There is no model here.")

    server = Server(load, settings(), port=0)
    thread, _ = running(server)
    client = Client(server)
    until(partial(listens, client))
    try:
        yield client
    finally:
        server.stop()
        never.set()
        thread.join(60)
        assert not thread.is_alive()


def answer(client: Client, content: bytes) -> bytes:
    """All that comes back before the server closes; a reset counts as the end."""
    with socket.create_connection(("127.0.0.1", client.port), timeout=60) as made:
        received = b""
        with suppress(ConnectionError):
            made.sendall(content)
        with suppress(ConnectionError):
            while piece := made.recv(1 << 16):
                received += piece
        return received


def test_a_server_refuses_them_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    closing = CHUNKED.replace(b"\r\nhost", b"\r\nconnection: close\r\nhost")
    with loading() as client:
        for hostile in (
            CHUNKED + ONE * 300_000 + b"0\r\n\r\n",
            CHUNKED.replace(b"application/json", b"text/plain") + ONE * 300_000,
            START + b"a: b\r\n" * 4000 + b"\r\n",
        ):
            received = answer(client, hostile)
            assert received[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 415", b""), received[:200]
            assert b"HTTP/1.1 2" not in received
            assert client.get("/health").status == 200
        sound = b"%s2\r\n{}\r\n%s0\r\n\r\n" % (closing, ONE * (limits.PIECES // 2))
        assert answer(client, sound)[:12] == b"HTTP/1.1 400"
        assert b"is missing" in answer(client, sound), "it was read to its end"
        short = START + b"connection: close\r\ncontent-type: application/json\r\n"
        whole = short + b"content-length: 600000\r\n\r\n{}" + b" " * 599_998
        assert b"is missing" in answer(client, whole), "a large body is no hostile one"
    assert not [each for each in caplog.records if each.exc_info], "nothing is a mistake of ours"
