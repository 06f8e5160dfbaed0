"""Long texts are encoded for owners in turns, and short ones wait for one of them at most."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from archer.server import limits
from archer.server.entrance import Entrance
from archer.server.request_reading import text_request
from server.running import on_a_loop


class Recorder:
    """A text that takes its time for long texts, and says in which order it was asked for what."""

    def __init__(self, child: object) -> None:
        self.child = child
        self.order: list[str] = []

    def encode_raw(self, text: str) -> list[int]:
        self.order.append(text[:2])
        time.sleep(0.02 * (len(text) > limits.LONG))
        return [1]


@pytest.mark.parametrize("child", [None, SimpleNamespace()], ids=["here", "child"])
@on_a_loop
async def test_an_owner_of_many_long_texts_holds_up_no_other(child: object) -> None:
    recorder = Recorder(child)
    entrance = Entrance(recorder)  # type: ignore[arg-type]

    async def send(owner: str, text: str) -> None:
        generation = text_request({"model": "m", "prompt": text})
        await entrance.requests(generation, owner, lambda ids: [])

    long = "x" * limits.LONG
    greedy: list[asyncio.Task[Any]] = [
        asyncio.create_task(send("greedy", f"g{number}{long}")) for number in range(6)
    ]
    await asyncio.sleep(0.01)
    await asyncio.gather(send("modest", "short"), send("other", f"o{long}"))
    assert len(recorder.order) <= 4, "others wait for no more than the texts before theirs"
    await asyncio.gather(*greedy)
    entrance.close()
    await asyncio.to_thread(entrance.join)
    assert recorder.order.index("sh") <= 2
    assert recorder.order.index("ox") <= 3
