"""Whatever is sent, the server refuses it in its own words, stays small and goes on answering."""

import json
import socket
import time
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from archer.model import Model
from archer.server import limits
from archer.server.app import State, create_app
from conftest import REPOSITORY
from server.running import PATIENCE, PROBLEM, Client, chat, serving, until

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
QUICK = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
LONG = settings(QUICK, max_examples=2500)
DESCRIBED = create_app(State()).openapi()
OPERATIONS = [(path, verb) for path, verbs in DESCRIBED["paths"].items() for verb in verbs]


def send(case: Any, client: Client) -> None:
    """Short responses, so that sound requests take no time, and by the model that there is."""
    if isinstance(case.body, dict):
        with suppress(TypeError):
            case.body = {**case.body, "max_tokens": min(case.body.get("max_tokens") or 4, 4)}
        if isinstance(case.body.get("model"), str):
            case.body = {**case.body, "model": "pocket"}
    response = case.call(base_url=f"http://127.0.0.1:{client.port}", timeout=PATIENCE)
    case.validate_response(response, checks=CHECKS)


@pytest.fixture(scope="module")
def schema() -> Any:
    """Requests are drawn from it for seconds: when a test runs, not in every process that collects."""
    return schemathesis.openapi.from_dict(DESCRIBED)


def test_the_description_says_what_a_body_is(schema: Any) -> None:
    """References that point nowhere leave a route without one, and then nothing is drawn for it."""
    assert [path for path, verb in OPERATIONS if list(schema[path][verb].body)] == [
        "/v1/chat/completions",
        "/v1/completions",
        "/infill",
    ]


@pytest.mark.parametrize("drawn", [QUICK, pytest.param(LONG, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("path", "verb"), OPERATIONS)
def test_drawn_requests_are_answered_as_described(
    path: str, verb: str, drawn: settings, schema: Any, client: Client
) -> None:
    @drawn
    @given(st.one_of([schema[path][verb].as_strategy(generation_mode=mode) for mode in MODES]))
    def answered(case: Any) -> None:
        send(case, client)

    answered()


HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
)


def body(content: bytes, announced: int | None = None) -> bytes:
    length = len(content) if announced is None else announced
    return HEAD + f"content-length: {length}\r\n\r\n".encode() + content


RAW: dict[str, bytes] = {
    "nothing": b"",
    "noise": bytes(range(256)) * 8,
    "no verb": b" / HTTP/1.1\r\n\r\n",
    "torn head": HEAD[:40],
    "torn body": body(b'{"model": "po', 4000),
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "http 0.9": b"GET /\r\n\r\n",
    "http 9": b"GET / HTTP/9.9\r\nhost: localhost\r\n\r\n",
    "negative length": HEAD + b"content-length: -1\r\n\r\n",
    "two lengths": HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    "length and chunks": HEAD + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad chunk": HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    "announced 200 MB": body(b"{", 200 << 20),
    "header of 1 MB": b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * (1 << 20) + b"\r\n\r\n",
    "10000 headers": b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10_000 + b"\r\n",
    "path of 100 kB": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "NUL in the path": b"GET /\0 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "traversal": b"GET /../../../etc/passwd HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "upgrade": b"GET / HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
    "deep": body(b"[" * 100_000),
    "NaN": body(json.dumps(chat(temperature=float("nan"))).encode()),
    "surrogates": body(
        b'{"model": "pocket", "messages": [{"role": "user", "content": "\\ud800"}]}'
    ),
    "not UTF-8": body(b'{"model": "\xff"}'),
    "huge number": body(b'{"seed": ' + b"9" * 100_000 + b"}"),
    "1e999": body(b'{"temperature": 1e999}'),
    "many fields": body(json.dumps({f"field{n}": n for n in range(20_000)}).encode()),
    "long stop": body(json.dumps(chat(stop="x" * 900_000)).encode()),
    "long prompt": body(json.dumps(chat("x " * 400_000)).encode()),
    "long method": body(json.dumps(chat(archer={"method": "+" * 200})).encode()),
    "long model": body(json.dumps(chat(model="x" * 100_000)).encode()),
    "odd settings": body(
        json.dumps(chat(archer={"settings": {"radius": "inf", "mu": 1e300}})).encode()
    ),
    "length of 5,000 digits": HEAD + b"content-length: " + b"9" * 5000 + b"\r\n\r\n{}",
    "length of 5,000 zeros": HEAD + b"content-length: " + b"0" * 5000 + b"\r\n\r\n",
    "pipelined": b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n" * 50,
}


def connected(client: Client) -> socket.socket:
    return socket.create_connection(("127.0.0.1", client.port), timeout=PATIENCE)


def exchange(client: Client, sent: bytes) -> bytes:
    """What comes back before the server closes or falls silent; the connection is then cut."""
    with connected(client) as connection:
        with suppress(OSError):
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
        got = b""
        with suppress(OSError):
            while part := connection.recv(1 << 16):
                got += part
        return got


@pytest.mark.parametrize("name", RAW)
def test_bytes_that_are_no_request(client: Client, name: str) -> None:
    got = exchange(client, RAW[name])
    assert b" 5" not in got[:13], got[:200]
    assert b"Traceback" not in got
    for path in (str(REPOSITORY), "site-packages"):
        assert path.encode() not in got
    assert client.get("/health").status == 200


def test_what_comes_from_below_is_plain_text_as_the_docs_say(client: Client) -> None:
    assert exchange(client, RAW["noise"]).startswith(b"HTTP/1.1 400 ")
    page = (REPOSITORY / "docs" / "serving.md").read_text(encoding="utf-8")
    assert f"{limits.CONNECTIONS} connections" in page
    for bound in (limits.VALUES, limits.CONTAINERS):
        assert f"{bound:,} " in page


def test_nothing_of_it_changes_an_answer_or_stays(pocket: Model, client: Client) -> None:
    (done,) = pocket.generate(PROBLEM, length="auto", max_length=8)
    before = client.resident()
    for _ in range(3):
        for sent in RAW.values():
            exchange(client, sent)
    assert client.ask(max_tokens=8).json["choices"][0]["message"]["content"] == done.text
    assert client.resident() < before + (64 << 20)


def test_200_megabytes_are_not_read(client: Client) -> None:
    before = client.resident()
    part = b" " * (1 << 20)
    with connected(client) as connection:
        connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n")
        sent = 0
        with suppress(OSError):
            while sent < 200:
                connection.sendall(b"100000\r\n" + part + b"\r\n")
                sent += 1
    assert sent < 200
    assert client.resident() < before + (32 << 20)


def test_a_connection_that_says_nothing_is_closed(
    pocket: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HEADER_SECONDS", 0.2)
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.2)
    with serving(pocket) as client:
        for sent in (b"", HEAD[:30]):
            with connected(client) as connection:
                connection.sendall(sent)
                with suppress(ConnectionResetError):
                    assert connection.recv(1) == b""
        with connected(client) as connection:
            connection.sendall(body(b'{"model"', 100))
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 408 ")
        until(client.idle)


HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (HEALTH + b"\r\n", b"G"),
        (HEALTH + b"\r\n", b"GET / HTTP/1.1\r\nx: "),
        (HEALTH + b"\r\n", b"\r\n"),
        (HEALTH + b"content-length: 1000000\r\n\r\n", b"x"),
        (HEALTH + b"transfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    ],
)
def test_a_connection_that_trickles_after_its_first_answer_is_closed(
    pocket: Model, monkeypatch: pytest.MonkeyPatch, first: bytes, then: bytes
) -> None:
    monkeypatch.setattr(limits, "HEADER_SECONDS", 0.4)
    with serving(pocket) as client, connected(client) as connection:
        connection.sendall(first)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        began = time.monotonic()
        with suppress(OSError):
            while time.monotonic() - began < PATIENCE:
                connection.sendall(then)
                time.sleep(0.05)
        assert time.monotonic() - began < PATIENCE
        assert client.get("/health").status == 200


def test_a_connection_that_asks_again_and_again_is_kept(
    pocket: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HEADER_SECONDS", 0.2)
    with serving(pocket) as client, connected(client) as connection:
        for _ in range(5):
            connection.sendall(HEALTH)
            time.sleep(0.1)
            connection.sendall(b"\r\n")
            got = b""
            while b"alive" not in got:
                got += (part := connection.recv(1 << 16))
                assert part
            assert got.startswith(b"HTTP/1.1 200 ")
            time.sleep(0.3)
