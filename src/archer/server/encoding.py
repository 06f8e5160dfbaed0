"""Prompts to token ids on a thread of its own; chats that arrive within 2 ms are rendered by one call."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from archer.engine.batch import contained
from archer.errors import Closing
from archer.loading.text.text import Text
from archer.request.fill import Fill
from archer.server.refusals import STOPPING
from archer.server.request_schema import Chat, Prompt

COLLECTED = 0.002
"""Seconds that the first of several waits for the others."""

Ids = list[int]
Encoded = list[Ids | Fill]
"""All prompts of a request; a text with gaps is encoded by whoever lays them out."""
T = TypeVar("T")


@dataclass(frozen=True)
class _Work:
    prompts: Sequence[Prompt]
    check: Callable[[Encoded], Any]
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]

    def settle(self, outcome: Any) -> None:
        """Hand the answer to the loop that waits for it, if it still does."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._set, outcome)

    def _set(self, outcome: Any) -> None:
        if self.answer.done():
            return
        if isinstance(outcome, Exception):
            self.answer.set_exception(outcome)
        else:
            self.answer.set_result(outcome)


class PromptEncoder:
    """One thread that encodes and checks; `close` tells it to end, `join` waits until it has."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self._closing = False
        self._waiting: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="archer-encoder", daemon=True)
        self._thread.start()

    async def requests(self, prompts: Sequence[Prompt], check: Callable[[Encoded], T]) -> T:
        """What the check, on the encoder's thread, makes of the ids; raises what refuses them."""
        loop = asyncio.get_running_loop()
        work = _Work(prompts, check, loop, loop.create_future())
        self._waiting.put(work)
        if self._closing:  # afterwards: what is put before the end is settled by the thread
            work.answer.cancel()
            raise Closing(STOPPING)
        outcome: T = await work.answer
        return outcome

    def close(self) -> None:
        """Refuse what waits and what comes; the thread ends after what it is at."""
        self._closing = True
        self._waiting.put(None)

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        going = True
        while going:
            batch = [self._waiting.get()]
            time.sleep(COLLECTED)
            while not self._waiting.empty():
                batch.append(self._waiting.get())
            going = None not in batch
            self._answer([work for work in batch if work is not None and not work.answer.done()])

    def _answer(self, batch: Sequence[_Work]) -> None:
        prompts = [] if self._closing else [each for work in batch for each in work.prompts]
        rendered = self._together(prompts)
        for work in batch:
            if work.answer.done():  # the client has left meanwhile
                continue
            if self._closing:
                work.settle(Closing(STOPPING))
                continue
            try:
                with contained():
                    ids = [rendered.get(id(each)) or self._alone(each) for each in work.prompts]
                    outcome = work.check(ids)
                work.settle(outcome)
            except Exception as error:  # noqa: BLE001 - whatever it is, one client waits for it
                work.settle(error)

    def _together(self, prompts: Sequence[Prompt]) -> Mapping[int, Ids]:
        """All chats by one rendering; nothing where one of them is refused: then each is asked alone."""
        chats = [prompt for prompt in prompts if isinstance(prompt, Chat)]
        if len(chats) < 2:
            return {}
        try:
            with contained():
                encoded = self._text.encode_chats([chat.messages for chat in chats])
        except Exception:  # noqa: BLE001 - whoever caused it is told when asked alone
            return {}
        return dict(zip(map(id, chats), encoded, strict=True))

    def _alone(self, prompt: Prompt) -> Ids | Fill:
        if isinstance(prompt, Chat):
            return self._text.encode_chat(prompt.messages)
        return prompt if isinstance(prompt, list | Fill) else self._text.encode_raw(prompt)
