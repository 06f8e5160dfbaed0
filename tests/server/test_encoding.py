"""The encoder's thread: chats that arrive together are rendered together, and who left is not encoded."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from archer.engine.engine import Engine
from archer.errors import BadRequest, Closing
from archer.loading.text.text import Text
from archer.model import Model
from archer.server import encoding
from archer.server.encoding import PromptEncoder
from archer.server.request_schema import Chat
from server.running import CHAT, PATIENCE, PROBLEM, Client, chat, on_a_loop, serving, until


def asked(text: str) -> Chat:
    return Chat([{"role": "user", "content": text}])


class Counting:
    """A text that counts its renderings."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self.together: list[int] = []
        self.alone = 0

    def encode_chats(self, chats: Sequence[Any]) -> list[list[int]]:
        self.together.append(len(chats))
        return self._text.encode_chats(chats)

    def encode_chat(self, messages: Any) -> list[int]:
        self.alone += 1
        return self._text.encode_chat(messages)

    def encode_raw(self, text: str) -> list[int]:
        return self._text.encode_raw(text)


@contextmanager
def encoder(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[PromptEncoder, Counting]]:
    """One that collects for long enough, however busy the machine is."""
    monkeypatch.setattr(encoding, "COLLECTED", 0.3)
    assert model.text is not None
    counting = Counting(model.text)
    made = PromptEncoder(counting)  # type: ignore[arg-type]
    try:
        yield made, counting
    finally:
        made.close()
        made.join()


def found(ids: Any) -> Any:
    """Checks nothing, and hands the ids on in the place of requests."""
    return ids


@on_a_loop
async def test_chats_that_arrive_together_are_rendered_once(
    pocket: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [PROBLEM.replace("5.", f"{number}.") for number in range(3)]
    with encoder(pocket, monkeypatch) as (made, counting):
        got: list[Any] = await asyncio.gather(
            *(made.requests([asked(text)], found) for text in texts)
        )
    assert got == [[pocket.encode(text)] for text in texts]
    assert (counting.together, counting.alone) == ([3], 0)


@on_a_loop
async def test_a_chat_that_is_refused_leaves_its_neighbours_alone(
    pocket: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    with encoder(pocket, monkeypatch) as (made, counting):
        got: tuple[Any, ...] = await asyncio.gather(
            made.requests([asked(PROBLEM)], found),
            made.requests([asked("<|eos|>")], found),
            made.requests(["def", [5, 6]], found),
            return_exceptions=True,
        )
    assert got[0] == [pocket.encode(PROBLEM)]
    assert isinstance(got[1], BadRequest)
    assert got[2] == [pocket.encode("def", chat=False), [5, 6]]
    assert (counting.together, counting.alone) == ([2], 2)


@on_a_loop
async def test_what_its_client_gave_up_is_not_encoded(
    pocket: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    with encoder(pocket, monkeypatch) as (made, counting):
        left = asyncio.create_task(made.requests([asked(PROBLEM)], found))
        kept: asyncio.Task[Any] = asyncio.create_task(made.requests([asked(PROBLEM)], found))
        await asyncio.sleep(0)
        left.cancel()
        assert await kept == [pocket.encode(PROBLEM)]
        assert left.cancelled()
    assert (counting.together, counting.alone) == ([], 1)


@on_a_loop
async def test_what_waits_when_it_is_closed_is_refused_and_so_is_what_comes(
    pocket: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    with encoder(pocket, monkeypatch) as (made, counting):
        waiting = [asyncio.create_task(made.requests([asked(PROBLEM)], found)) for _ in range(3)]
        await asyncio.sleep(0)
        made.close()
        for each in (*waiting, made.requests([asked(PROBLEM)], found)):
            with pytest.raises(Closing, match="The server is stopping"):
                await each
        await asyncio.to_thread(made.join)
    assert (counting.together, counting.alone) == ([], 0)


def holding(monkeypatch: pytest.MonkeyPatch, name: str) -> tuple[threading.Event, threading.Event]:
    """Stops the encoder's thread in one of its methods: when it got there, and what lets it go on."""
    reached, free = threading.Event(), threading.Event()
    plain: Callable[..., Any] = getattr(PromptEncoder, name)

    def held(self: PromptEncoder, *args: Any) -> Any:
        reached.set()
        assert free.wait(PATIENCE)
        return plain(self, *args)

    monkeypatch.setattr(PromptEncoder, name, held)
    return reached, free


@pytest.mark.parametrize("stage", ["_answer", "_alone"], ids=["before", "while"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_client_that_leaves_before_it_is_encoded_costs_nothing(
    pocket: Model, monkeypatch: pytest.MonkeyPatch, stage: str, stream: bool
) -> None:
    with serving(pocket) as client:
        enqueued: list[object] = []
        enqueue = Engine.enqueue

        def counted(self: Engine, *args: Any) -> Any:
            enqueued.append(args)
            return enqueue(self, *args)

        monkeypatch.setattr(Engine, "enqueue", counted)
        reached, free = holding(monkeypatch, stage)
        connection = client.raw(CHAT, chat(stream=stream))
        assert reached.wait(PATIENCE)
        assert busy(client) == 1
        connection.close()
        until(lambda: busy(client) == 0)
        free.set()
        monkeypatch.undo()
        assert client.ask(max_tokens=4).status == 200
        assert enqueued == []
        assert client.metric("requests_accepted_total") == 1


def busy(client: Client) -> int:
    return client.server.state.ready().busy
