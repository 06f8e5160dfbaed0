"""Connections are bounded per address and in all, below what a process may open; the oldest idle one goes."""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.errors import BadRequest
from archer.server import error_log, lifecycle, limits
from archer.server.access import network_of
from archer.server.connections import ConnectionLimits, Connections
from archer.server.error_log import ErrorLog
from server.running import CHAT, Client, slow, until
from server.test_connection_bounds import CHUNKED, START, answer, loading
from server.test_server_process import SERVING, process

SMALL = ConnectionLimits(most=8, per_address=4, kept=2, pending=4)
LAST = b"\r\nconnection: close\r\n\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.mark.parametrize("descriptors", [64, 100, 256, 1024, 4096, 1 << 20])
@pytest.mark.parametrize("opened", [8, 14])
def test_all_that_can_be_open_fits_into_the_descriptors(descriptors: int, opened: int) -> None:
    bounds = ConnectionLimits.of(descriptors, opened)
    assert opened + bounds.most + bounds.kept + bounds.pending < descriptors
    assert bounds.per_address < bounds.most <= limits.CONNECTIONS
    assert min(bounds.per_address, bounds.kept, bounds.pending) >= 2


@pytest.mark.parametrize(("descriptors", "opened"), [(16, 4), (40, 8), (1024, 1020), (64, 63)])
def test_too_few_descriptors_are_refused_with_what_is_needed(descriptors: int, opened: int) -> None:
    with pytest.raises(BadRequest, match=r"too few for a server.*at least (\d+)") as caught:
        ConnectionLimits.of(descriptors, opened)
    enough = int(str(caught.value).partition("at least ")[2].partition(".")[0])
    ConnectionLimits.of(enough, opened)
    with pytest.raises(BadRequest):
        ConnectionLimits.of(enough - 1, opened)


class Line:
    """A connection that closes when it is told to, at the next look."""

    def __init__(self, address: str) -> None:
        self.address, self.told = address, False

    def make_room(self) -> None:
        assert not self.told
        self.told = True


ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "::1")


@given(st.lists(st.tuples(st.sampled_from("anbhgc"), st.integers(0, 99)), max_size=120))
def test_counts_hold_whatever_happens(events: list[tuple[str, int]]) -> None:
    """a: somebody connects; n: idle; h: a request begins; b: it is whole; g: leaves; c: all told are gone."""
    all_of_them = Connections(SMALL)
    there: list[Line] = []
    order: list[Line] = []
    incomplete: list[Line] = []
    for kind, number in events:
        before = [line for line in there if line.told]
        newcomer = ""
        if kind == "a":
            newcomer = ADDRESSES[number % len(ADDRESSES)]
            held = Counter(line.address for line in there if not line.told)
            none_idle = not order
            if all_of_them.accept(newcomer):
                line = Line(newcomer)
                there.append(line)
                order.append(line)
                spare = all_of_them.made(line, newcomer)
                left = [each for each in there if not each.told]
                same = [each for each in left if each.address == newcomer]
                assert spare == (len(same) > SMALL.per_address or len(left) > SMALL.most)
        elif kind == "c":
            for line in before:
                all_of_them.gone(line, line.address)
                there.remove(line)
        elif there and not (line := there[number % len(there)]).told:
            begun = line in incomplete
            for own in (order, incomplete):
                if line in own and not (kind == "h" and own is incomplete):
                    own.remove(line)
            if kind == "n":
                order.append(line)
                all_of_them.idle(line, line.address)
            elif kind == "h":
                if not begun:
                    incomplete.append(line)
                all_of_them.begun(line, line.address)
            elif kind == "b":
                all_of_them.busy(line)
            else:
                all_of_them.gone(line, line.address)
                there.remove(line)
        for line in [each for each in order if each.told]:
            own = [each for each in order if each.address == line.address]
            assert line in (order[0], own[0]), "the one that was idle for longest"
            order.remove(line)
        for line in [each for each in incomplete if each.told]:
            assert none_idle, "idle ones go first"
            assert line == next(each for each in incomplete if each.address == line.address)
            most = max(held[each.address] for each in incomplete)
            assert held[newcomer] + 1 < held[line.address] == most
            incomplete.remove(line)
        remaining = [line for line in there if not line.told]
        assert len(there) <= SMALL.most + SMALL.kept + SMALL.pending
        assert len(remaining) <= SMALL.most + SMALL.kept


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1::/56"),
        ("2001:db8:1:ff02:3:4:5:6", "2001:db8:1:ff00::/56"),
        ("fe80::1%eth0", "fe80::/56"),
        ("testclient", "testclient"),
        ("", ""),
    ],
)
def test_a_stranger_is_an_address_or_a_network(address: str, network: str) -> None:
    assert network_of(address) == network


def connected(client: Client, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(
        ("127.0.0.1", client.port), timeout=60, source_address=(source, 0)
    )


def closed(connection: socket.socket) -> bool:
    """Whether the server has closed it; what it sent before is read."""
    connection.setblocking(False)
    try:
        while connection.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True


def asked(client: Client, sent: bytes = HEALTH, source: str = "127.0.0.1") -> bytes:
    """The beginning of an answer on a connection of its own."""
    with connected(client, source) as connection, suppress(ConnectionError):
        connection.sendall(sent)
        return connection.recv(1 << 16)
    return b""


@contextmanager
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Client, ExitStack]]:
    monkeypatch.setattr(lifecycle, "limits_here", lambda: SMALL)
    with loading() as client, ExitStack() as open_ones:
        yield client, open_ones


def test_idle_connections_of_one_address_shut_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with small(monkeypatch) as (client, stack):
        idle = [stack.enter_context(connected(client)) for _ in range(30)]
        for source in ("127.0.0.1", "127.0.0.2"):
            assert asked(client, source=source).startswith(b"HTTP/1.1 200 ")
        until(lambda: sum(not closed(each) for each in idle) <= SMALL.per_address)
        kept = [place for place, each in enumerate(idle) if not closed(each)]
        assert kept
        assert kept == list(range(30 - len(kept), 30)), "the oldest were closed"


def test_idle_connections_of_many_addresses_shut_nobody_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with small(monkeypatch) as (client, stack):
        idle = [
            stack.enter_context(connected(client, f"127.0.1.{place}")) for place in range(1, 31)
        ]
        assert asked(client).startswith(b"HTTP/1.1 200 ")
        until(lambda: sum(not closed(each) for each in idle) <= SMALL.most)


def test_a_connection_between_two_requests_is_idle_and_one_within_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with small(monkeypatch) as (client, stack):
        within, between = (stack.enter_context(connected(client)) for _ in range(2))
        within.sendall(CHUNKED)
        between.sendall(HEALTH)
        assert between.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        counts = client.server._connections
        until(lambda: len(counts._idle) == 1 and counts._open.total() == 2)
        for _ in range(2 * SMALL.per_address):
            stack.enter_context(connected(client))
        until(partial(closed, between))
        assert not closed(within)


def headers_alone(
    stack: ExitStack, client: Client, source: str, first: bytes = b""
) -> socket.socket:
    """A request whose body never comes; `first` comes with it."""
    line = stack.enter_context(connected(client, source))
    line.sendall(first + START + b"content-type: application/json\r\ncontent-length: 10\r\n\r\n")
    return line


@pytest.mark.parametrize("first", [b"", HEALTH], ids=["alone", "behind a whole one"])
def test_requests_that_never_arrive_shut_nobody_out(
    monkeypatch: pytest.MonkeyPatch, first: bytes
) -> None:
    """Two networks hold all places there are; whoever comes then is served, and they are as before."""
    bounds = ConnectionLimits.of(64, 14)
    monkeypatch.setattr(lifecycle, "limits_here", lambda: bounds)
    with loading() as client, ExitStack() as stack:
        counts = client.server._connections
        lines = [
            headers_alone(stack, client, f"127.0.3.{1 + number // bounds.per_address}", first)
            for number in range(bounds.most)
        ]
        until(lambda: len(counts._incomplete) == bounds.most)
        until(lambda: not counts._idle and counts._open.total() == bounds.most)
        models = HEALTH.replace(b"/health", b"/v1/models").replace(b"\r\n\r\n", LAST)
        received = answer(client, models)
        assert b"being loaded" in received, received
        until(lambda: any(map(closed, lines)))
        gone = [place for place, line in enumerate(lines) if closed(line)]
        assert len(gone) == 1
        assert gone[0] < 2 * bounds.per_address, "of a network that holds many"


def test_where_all_are_at_work_signs_of_life_are_still_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with small(monkeypatch) as (client, stack):
        for place in range(SMALL.most):
            line = stack.enter_context(connected(client, f"127.0.2.{place + 1}"))
            line.sendall(CHUNKED)
        counts = client.server._connections
        until(lambda: not counts._idle and counts._open.total() == SMALL.most)
        for path in (b"/health", b"/metrics"):
            received = answer(client, HEALTH.replace(b"/health", path))
            assert received.startswith(b"HTTP/1.1 200 ")
            assert b"connection: close" in received
        other = answer(client, HEALTH.replace(b"/health", b"/v1/models"))
        assert other.startswith(b"HTTP/1.1 503 ")
        assert b"Too many connections are open" in other
        assert b"connection: close" in other
        assert b"retry-after: 1" in other
        crowd = [stack.enter_context(connected(client)) for _ in range(3 * SMALL.kept)]
        assert asked(client).startswith(b"HTTP/1.1 200 "), "spare ones that say nothing make room"
        assert sum(not closed(each) for each in crowd) <= SMALL.kept


def test_errors_of_one_kind_are_logged_once_per_interval(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    errors = ErrorLog(logging.getLogger("archer"), lambda: now)
    for _ in range(1000):
        errors.error("One kind.")
        errors.error("Another kind.")
    now = error_log.INTERVAL
    errors.error("One kind.")
    assert [each.getMessage() for each in caplog.records] == [
        "One kind.",
        "Another kind.",
        "One kind. It came 999 times more before.",
    ]
    monkeypatch.setattr(error_log, "MOST_KINDS", 3)
    for number in range(100):
        errors.error(f"Kind {number}.")
    assert len(errors._kinds) <= 3


def test_what_the_event_loop_reports_is_logged_without_its_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    report: Any = lifecycle._reported_once(ErrorLog(logging.getLogger("archer")))
    loop = asyncio.new_event_loop()
    try:
        for _ in range(50):
            context = {"message": "accept() failed", "exception": OSError("the secret prompt")}
            report(loop, context)
        report(loop, {"message": "a task was lost"})
    finally:
        loop.close()
    assert [each.getMessage() for each in caplog.records] == [
        "The event loop reports: accept() failed (OSError).",
        "The event loop reports: a task was lost (NoneType).",
    ]


LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({0}, {0})); " + SERVING


@pytest.mark.slow
def test_a_thousand_requests_that_never_arrive_shut_nobody_out() -> None:
    with process("--log-level", "warning", code=LIMITED.format(1024)) as server:
        client = server.ready()
        with ExitStack() as stack:
            for number in range(1024):
                headers_alone(stack, client, f"127.0.3.{1 + number % 2}")
                if number % 20 == 0:
                    assert client.get("/health").status == 200
            for _ in range(20):
                assert client.ask(max_tokens=4).status == 200
    assert len(server.wrote.splitlines()) < 10, server.wrote


@pytest.mark.slow
@pytest.mark.parametrize("descriptors", [64, 1024])
def test_more_idle_connections_than_descriptors(descriptors: int) -> None:
    """At every moment: signs of life, an open chat that goes on, new requests; and a short log."""
    with process("--log-level", "warning", code=LIMITED.format(descriptors)) as server:
        client = server.ready()
        with ExitStack() as stack:
            running = stack.enter_context(client.raw(CHAT, slow(128, stream=True)))
            assert running.recv(9) == b"HTTP/1.1 "
            for number in range(descriptors + 76):
                source = f"127.0.{number % 7}.{1 + number % 200}"
                stack.enter_context(connected(client, source))
                if number % 20 == 0:
                    assert client.get("/health").status == 200
                    assert client.get("/metrics").status == 200
            assert client.ask(max_tokens=4).status == 200
            received = b""
            while b"[DONE]" not in received:
                received += (part := running.recv(1 << 16))
                assert part, received[-200:]
            assert b"error" not in received
        assert client.get("/health").status == 200
        assert server.process.poll() is None
    assert "Traceback" not in server.wrote
    assert len(server.wrote.splitlines()) < 10, server.wrote
