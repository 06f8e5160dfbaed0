"""Who may ask: keys, names of the machine, and what an error tells."""

import hmac
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from archer.errors import BadRequest
from archer.model import Model
from archer.server.access import PUBLIC, Access, check_binding
from archer.server.app import State, create_app
from archer.server.lifecycle import Server
from archer.server.settings import ServerSettings, read_keys
from server.running import Client, chat, on_a_loop, settings

KEYS = ("a-key-of-good-length-1", "a-key-of-good-length-2")


def asking(app: Any, host: str = "localhost") -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url=f"http://{host}")


def routes(app: FastAPI) -> Iterator[tuple[str, str]]:
    for route in app.routes:
        for verb in getattr(route, "methods", None) or ():
            yield verb, getattr(route, "path", "").replace("{id:path}", "pocket")


@on_a_loop
async def test_every_route_but_three_wants_the_key() -> None:
    app = create_app(State())
    asked = set()
    async with asking(Access(app, KEYS, local=False)) as client:
        for verb, path in routes(app):
            asked.add(path)
            for header in ("", "Bearer", "Bearer wrong", f"Basic {KEYS[0]}", f"Bearer {KEYS[0]}x"):
                reply = await client.request(verb, path, headers={"authorization": header})
                assert (reply.status_code == 401) == (path not in PUBLIC), (path, header)
            for key in KEYS:
                reply = await client.request(verb, path, headers={"authorization": f"bearer {key}"})
                assert reply.status_code != 401, path
        reply = await client.get("/metrics")
        assert reply.json()["error"]["type"] == "authentication_error"
        assert reply.headers["www-authenticate"] == "Bearer"
    assert {"/", "/metrics", "/openapi.json", "/v1/chat/completions", "/v1/models"} <= asked


@on_a_loop
async def test_keys_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    real = hmac.compare_digest

    def compare(one: bytes, two: bytes) -> bool:
        compared.append(two)
        return real(one, two)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    async with asking(Access(create_app(State()), KEYS, local=False)) as client:
        await client.get("/metrics", headers={"authorization": f"Bearer {KEYS[0]}"})
    assert compared == [key.encode() for key in KEYS], "all of them, whichever matches"


@on_a_loop
async def test_without_a_key_only_names_of_this_machine_are_answered() -> None:
    app = Access(create_app(State()), (), local=True)
    for host, status in (
        ("localhost", 200),
        ("127.0.0.1:8000", 200),
        ("[::1]:8000", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
    ):
        async with asking(app) as client:
            reply = await client.get("/health", headers={"host": host})
            assert reply.status_code == status, host


@on_a_loop
async def test_an_unforeseen_error_tells_the_client_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = create_app(State())

    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError("the secret prompt")

    with caplog.at_level(logging.ERROR):
        async with asking(Access(app, (), local=True)) as client:
            reply = await client.get("/broken")
    assert reply.status_code == 500
    assert reply.json()["error"]["type"] == "server_error"
    assert "secret" not in reply.text
    assert "Traceback" not in reply.text
    ours = [record.getMessage() for record in caplog.records if record.name == "archer"]
    assert len(ours) == 1
    assert "RuntimeError < test_access.py:" in ours[0]
    assert "secret" not in ours[0]


@on_a_loop
async def test_while_the_model_is_loading() -> None:
    state = State()
    async with asking(Access(create_app(state), (), local=True)) as client:
        assert (await client.get("/health")).status_code == 200
        for path in ("/ready", "/v1/models", "/v1/models/pocket"):
            assert (await client.get(path)).status_code == 503
        reply = await client.post("/v1/chat/completions", json=chat())
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "loading")
        assert reply.headers["retry-after"] == "5"
        assert (await client.get("/metrics")).status_code == 200


@on_a_loop
async def test_bodies_are_bounded_and_announced_as_json() -> None:
    async with asking(Access(create_app(State()), (), local=True)) as client:
        path, kind = "/v1/completions", {"content-type": "application/json"}
        large = await client.post(path, content=b"x" * ((1 << 20) + 1), headers=kind)
        assert large.status_code == 413
        assert large.headers["connection"] == "close"

        async def endless() -> Any:
            for _ in range(40):
                yield b" " * (1 << 16)

        assert (await client.post(path, content=endless(), headers=kind)).status_code == 413
        for wrong in ("text/plain", "application/x-www-form-urlencoded", ""):
            reply = await client.post(path, content=b"{}", headers={"content-type": wrong})
            assert reply.status_code == 415, wrong
        assert (await client.post(path, content=b"[]", headers=kind)).status_code == 400
        charset = {"content-type": "application/json; charset=utf-8"}
        assert (await client.post(path, content=b"{}", headers=charset)).status_code == 400


def test_binding_elsewhere_needs_a_key_or_a_word() -> None:
    with pytest.raises(BadRequest, match="Give a file of keys, or say that everybody may use it"):
        check_binding("0.0.0.0", ServerSettings())
    check_binding("0.0.0.0", settings(KEYS))
    check_binding("0.0.0.0", ServerSettings(without_key=True))
    for host in ("127.0.0.1", "::1", "localhost"):
        check_binding(host, ServerSettings())


def test_key_files(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# ours\n{KEYS[0]}\n\n  {KEYS[1]}  \n")
    assert read_keys(file) == KEYS
    for content, phrase in (
        (b"# nothing\n", "holds no key"),
        (b"short\n", "shorter than 16"),
        ("schlüssel-der-lang-ist".encode(), "plain ASCII"),
        (b"\xff\xff", "not UTF-8"),
    ):
        file.write_bytes(content)
        with pytest.raises(BadRequest, match=phrase):
            read_keys(file)
    with pytest.raises(BadRequest, match="cannot be read: No such file"):
        read_keys(tmp_path / "missing")


def test_a_mark_of_the_byte_order_is_no_part_of_a_key(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("a-key-that-is-long-enough", encoding="utf-8-sig")
    assert read_keys(file) == ("a-key-that-is-long-enough",)


def test_an_address_is_taken_before_the_model_is_loaded(pocket: Model) -> None:
    first = Server(lambda: pocket, ServerSettings(), port=0)
    try:
        with pytest.raises(BadRequest, match="Choose another host or port"):
            Server(lambda: pocket, ServerSettings(), port=first.port)
    finally:
        first._socket.close()
    with pytest.raises(BadRequest, match=r"cannot listen at 127\.0\.0\.1 port 99999"):
        Server(lambda: pocket, ServerSettings(), port=99999)


def test_headers_that_keep_browsers_out_of_trouble(client: Client) -> None:
    page, health = client.get("/"), client.get("/health")
    for reply in (page, health):
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in reply.headers
        assert "server" not in reply.headers
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy


ORIGINS = ("https://chat.example", "http://localhost:3000")
ASKING = {"access-control-request-method": "POST"}


@on_a_loop
async def test_only_pages_of_exact_origins_may_read_answers() -> None:
    app = Access(create_app(State()), KEYS, local=False, origins=ORIGINS)
    async with asking(app) as client:
        for origin in ORIGINS:
            asked = await client.options("/v1/completions", headers={"origin": origin, **ASKING})
            assert asked.status_code == 204
            assert asked.headers["access-control-allow-origin"] == origin
            assert "authorization" in asked.headers["access-control-allow-headers"]
            for path, status in (("/health", 200), ("/metrics", 401)):
                reply = await client.get(path, headers={"origin": origin})
                assert (reply.status_code, reply.headers["vary"]) == (status, "origin")
                assert reply.headers["access-control-allow-origin"] == origin
        for origin in (
            "https://chat.example.evil.example",
            "https://evil.chat.example",
            "http://chat.example",
            "https://chat.example:444",
            "https://CHAT.example",
            "null",
            "*",
            "",
        ):
            asked = await client.options("/v1/completions", headers={"origin": origin, **ASKING})
            assert asked.status_code == 401, origin
            reply = await client.get("/health", headers={"origin": origin})
            for each in (asked, reply):
                assert not any(name.startswith("access-control") for name in each.headers), origin
                assert each.headers["vary"] == "origin"
        bare = await client.options("/metrics", headers={"origin": ORIGINS[0]})
        assert bare.status_code == 401, "it asks for nothing, so it is a request like any other"


@on_a_loop
async def test_no_origin_is_allowed_unless_it_is_named() -> None:
    async with asking(Access(create_app(State()), (), local=True)) as client:
        for path in ("/health", "/metrics", "/nothing"):
            reply = await client.get(path, headers={"origin": "http://localhost:3000"})
            assert not any(name.startswith("access-control") for name in reply.headers)
            assert "vary" not in reply.headers


@pytest.mark.parametrize(
    "origin",
    [
        "*",
        "null",
        "https://*.example",
        "https://chat.example/",
        "chat.example",
        "ftp://a",
        "http://a:b",
    ],
)
def test_an_origin_that_is_a_pattern_or_none_is_refused(origin: str) -> None:
    with pytest.raises(ValueError, match="should be an origin such as"):
        ServerSettings(cors_origin=(origin,))


@on_a_loop
async def test_the_access_log_holds_nothing_that_a_client_wrote(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = Access(create_app(State()), KEYS, local=False)
    own = {"authorization": f"Bearer {KEYS[1]}", "user-agent": "SECRET", "referer": "SECRET"}
    with caplog.at_level(logging.INFO, logger="archer.access"):
        async with asking(app) as client:
            await client.post("/v1/chat/completions?q=SECRET", json=chat("SECRET"), headers=own)
            await client.get("/v1/models/SECRET", headers=own)
            await client.get("/SECRET", headers=own)
            await client.request("SECRET", "/health", headers=own)
            await client.get("/metrics", headers={"authorization": "Bearer SECRET"})
    lines = [each.getMessage() for each in caplog.records if each.name == "archer.access"]
    assert not any("SECRET" in line or key in line for line in lines for key in KEYS)
    beginnings = [
        "POST /v1/chat/completions from 127.0.0.1 with key 1: 503 after 0.",
        "GET /v1/models/{id:path} from 127.0.0.1 with key 1: 503 after 0.",
        "GET at no known address from 127.0.0.1 with key 1: 404 after 0.",
        "Another method /health from 127.0.0.1: 405 after 0.",
        "GET at no known address from 127.0.0.1: 401 after 0.",
    ]
    for line, beginning in zip(lines, beginnings, strict=True):
        assert line.startswith(beginning), line


@on_a_loop
async def test_no_line_is_written_for_requests_unless_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, logger="archer"):
        async with asking(Access(create_app(State()), (), local=True)) as client:
            await client.get("/health")
    assert not caplog.records
