"""The application in somebody else's host: the same answers, loaded and closed by the host's lifespan."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import uvicorn

from archer.errors import ArcherError, BadModel
from archer.model import Model
from archer.server.access import PUBLIC
from archer.server.lifecycle import AsgiApp
from archer.server.settings import ServerSettings
from server.contract import check, check_async
from server.running import chat, on_a_thread, settings, until

KEY = "0123456789abcdef"


@contextmanager
def hosted(application: AsgiApp) -> Iterator[str]:
    """By uvicorn, as anybody would."""
    config = uvicorn.Config(application, port=0, lifespan="on", log_level="critical", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive())
        assert server.started
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


def expected_of(model: Model) -> str:
    from server.contract import LENGTH, PROMPT

    text = model.generate(PROMPT, length="auto", max_length=LENGTH)[0].text
    assert text is not None
    return text


def test_any_host_serves_the_same_application(pocket: Model) -> None:
    application = AsgiApp(lambda: pocket, ServerSettings())
    with pytest.raises(ArcherError, match="does not run"):
        application.check()
    with hosted(application) as url:
        application.check()
        expected = expected_of(pocket)
        on_a_thread(lambda: check(f"{url}/v1", expected))
        on_a_thread(lambda: asyncio.run(check_async(f"{url}/v1", expected)))
        engine = application.state.ready().engine
        assert engine.alive
    assert application.state.serving is None
    assert not engine.alive


def test_without_a_key_only_names_of_this_machine_are_answered(pocket: Model) -> None:
    asked: dict[str, Any] = {"headers": {"host": "archer.example"}, "timeout": 60}
    with hosted(AsgiApp(lambda: pocket, ServerSettings())) as url:
        assert httpx.get(f"{url}/ready").status_code == 200
        assert httpx.get(f"{url}/ready", **asked).status_code == 403
    with hosted(AsgiApp(lambda: pocket, ServerSettings(without_key=True))) as url:
        assert httpx.get(f"{url}/ready", **asked).status_code == 200
    with hosted(AsgiApp(lambda: pocket, settings((KEY,)))) as url:
        assert "/ready" in PUBLIC
        assert httpx.get(f"{url}/ready", **asked).status_code == 200
        assert httpx.post(f"{url}/v1/chat/completions", json=chat(), **asked).status_code == 401


def test_a_model_that_cannot_be_loaded_is_told_to_the_host() -> None:
    def load() -> Model:
        raise BadModel("There is no such folder.")

    sent: list[Any] = []

    async def told(message: Any) -> None:
        sent.append(message)

    async def lives() -> None:
        async def startup() -> dict[str, str]:
            return {"type": "lifespan.startup"}

        await AsgiApp(load, ServerSettings())({"type": "lifespan"}, startup, told)

    on_a_thread(lambda: asyncio.run(lives()))
    assert sent == [{"type": "lifespan.startup.failed", "message": "There is no such folder."}]
