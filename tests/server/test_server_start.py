"""How a server comes up and what is left when it does not, or when its engine ends by itself."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from archer.engine.engine import Engine
from archer.engine.handle import PassRecord
from archer.errors import ArcherError, BadRequest, PassFailed
from archer.model import Model, load
from archer.server import lifecycle
from archer.server.app import State
from archer.server.lifecycle import Server, open_serving
from archer.server.settings import ServerSettings
from server.running import CHAT, PATIENCE, Client, listens, running, serving, slow, until
from support.folders import make_llada


def threads() -> set[str]:
    return {each.name for each in threading.enumerate() if each.name.startswith("archer-")}


def test_told_to_stop_while_the_model_loads(pocket: Model) -> None:
    began, go_on = threading.Event(), threading.Event()

    def load() -> Model:
        began.set()
        assert go_on.wait(PATIENCE)
        return pocket

    before = threading.active_count()
    server = Server(load, ServerSettings(), port=0)
    thread, ended = running(server)
    try:
        assert began.wait(PATIENCE)
        client = Client(server)
        until(lambda: listens(client))
        assert client.get("/health").status == 200
        assert client.get("/ready").status == 503
        server.stop()
        thread.join(PATIENCE)
        assert ended == [0], "it did not wait for the load"
        assert server.still_loading
    finally:
        go_on.set()
    until(lambda: threading.active_count() <= before and not server.still_loading)
    assert server.state.serving is None


def test_an_engine_that_ends_by_itself_ends_the_server(pocket: Model) -> None:
    server = Server(lambda: pocket, ServerSettings(), port=0)
    thread, ended = running(server)
    until(lambda: server.state.serving is not None)
    client = Client(server)
    metrics = server.state.metrics
    count = metrics.passed
    begun = threading.Event()

    def fails(record: PassRecord) -> None:
        if not begun.is_set():
            count(record)
            return
        raise RuntimeError("a disk is full")

    metrics.passed = fails  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as pool:
        plain = pool.submit(client.post, CHAT, slow(900))
        stream = pool.submit(client.post, CHAT, slow(900, stream=True))
        until(lambda: client.metric("num_requests_running") == 2)
        begun.set()
        assert plain.result(PATIENCE).status == 500
        error = stream.result(PATIENCE).events[-1]["error"]
    assert error["type"] == "server_error"
    assert "disk" not in error["message"]
    thread.join(PATIENCE)
    (lost,) = ended
    assert isinstance(lost, PassFailed)
    assert "The engine stopped" in str(lost)


def test_a_server_whose_engine_does_not_run_is_not_ready(pocket: Model) -> None:
    with serving(pocket) as client:
        assert client.get("/ready").status == 200
        client.server.state.ready().engine.close()
        assert client.get("/ready").status == 503
        assert client.get("/health").status == 200


def late(*_: Any) -> None:
    raise ArcherError("it was told not to")


def test_what_cannot_be_opened_leaves_no_thread_behind(
    pocket: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = threads()
    with pytest.raises(BadRequest, match="has no tokenizer"):
        open_serving(load(make_llada(tmp_path), device="cpu"), ServerSettings(), State())
    with monkeypatch.context() as patched:
        patched.setattr(lifecycle, "first_update", late)
        with pytest.raises(ArcherError, match="told not to"):
            open_serving(pocket, ServerSettings(budget=64), State())
    with monkeypatch.context() as patched:
        patched.setattr(Engine, "start", late)
        with pytest.raises(ArcherError, match="told not to"):
            open_serving(pocket, ServerSettings(budget=64), State())
    assert threads() == before


def test_a_first_update_that_takes_too_long_is_told(
    pocket: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(lifecycle, "CLOSE_SECONDS", 0.01)
    held = threading.Event()
    turn = Engine.turn

    def slow_turn(self: Engine) -> bool:
        assert held.wait(PATIENCE)
        return turn(self)

    monkeypatch.setattr(Engine, "turn", slow_turn)
    before = threads()
    try:
        with pytest.raises(ArcherError, match=r"first update within 0\.01 s"):
            open_serving(pocket, ServerSettings(budget=64), State())
    finally:
        held.set()
    until(lambda: threads() <= before)
    assert threads() <= before
