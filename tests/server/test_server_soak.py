"""Many clients at once, sound and unsound, patient and not: nothing is lost and nothing stays behind."""

import logging
import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from typing import Any

import pytest

from archer.model import Model
from server.running import CHAT, PROBLEM, TEXT, Client, chat, serving, until
from support.processes import descriptors

METHODS = ("archer:4", "saber", "llada-confidence", "fast-dllm-parallel", "wino", "threshold+age:3")
INVALID: tuple[dict[str, Any], ...] = (
    {"model": "gpt-4"},
    {"n": 99},
    {"top_p": 0.1},
    {"archer": {"method": "sabre"}},
    {"max_tokens": 10**6},
)
PLANNED = {200, 400, 404, 429}


def one(client: Client, number: int, ids: list[int]) -> str:
    """One request of a client of some kind; what came of it."""
    drawn = random.Random(number)
    fields: dict[str, Any] = {"max_tokens": drawn.choice((2, 4, 6)), "seed": number}
    fields["archer"] = {"method": drawn.choice(METHODS)}
    stream = drawn.random() < 0.5
    if stream:
        fields["stream"] = True
        if drawn.random() < 0.3:
            fields["archer"]["stream_mode"] = "provisional"
    kind = drawn.random()
    if kind < 0.2:
        return str(client.ask(**{**fields, **drawn.choice(INVALID)}).status)
    body = {"model": "pocket", "prompt": ids, **fields} if drawn.random() < 0.9 else chat(**fields)
    path = TEXT if "prompt" in body else CHAT
    if kind < 0.3:
        with closing(client.raw(path, body)) as connection:
            connection.settimeout(drawn.random() * 0.1 + 0.001)
            with suppress(TimeoutError):
                connection.recv(1)
        return "left"
    if kind < 0.35:
        with closing(client.raw(path, body, receive=4096)) as connection:
            threading.Event().wait(0.2)
            return connection.recv(1 << 16)[9:12].decode()
    reply = client.post(path, body)
    if stream and reply.status == 200:
        assert "error" not in reply.events[-1]
    return str(reply.status)


class Reading(logging.Handler):
    """Reads all that is logged and keeps nothing but what holds words of clients."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__()
        self._words, self.requests = words, 0
        self.leaked: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        self.requests += "POST /v1/" in line
        if any(word in line for word in self._words):
            self.leaked.append(line)


@contextmanager
def reading_logs(words: Sequence[str]) -> Iterator[Reading]:
    reading, log, access = Reading(words), logging.getLogger(), logging.getLogger("archer.access")
    access.setLevel(logging.INFO)
    others, log.handlers = log.handlers, [reading]  # pytest's own keep every line
    try:
        yield reading
    finally:
        log.handlers = others
        access.setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("count", "clients", "settle"),
    [(240, 16, 80), pytest.param(10_000, 32, 1_000, marks=pytest.mark.slow)],
)
def test_nothing_is_lost_and_nothing_grows(
    pocket: Model, count: int, clients: int, settle: int
) -> None:
    """`settle` requests first, after which nothing may grow any more; no log holds what clients wrote."""
    assert pocket.text is not None
    (ids,) = pocket.text.encode_chats(["Write a function.\ndef solve(nums):"])
    outcomes: Counter[str] = Counter()
    written = (*PROBLEM.splitlines(), "sabre", "gpt-4", str(ids)[1:-1])
    with reading_logs(written) as reading, serving(pocket) as client:
        with ThreadPoolExecutor(clients) as pool:
            outcomes.update(pool.map(lambda n: one(client, n, ids), range(settle)))
            until(client.idle)
            memory, handles, threads = client.resident(), descriptors(), threading.active_count()
            # in parts, because a pool keeps something for each that it is given
            for first in range(settle, count, settle):
                some = range(first, min(first + settle, count))
                outcomes.update(pool.map(lambda n: one(client, n, ids), some))
            until(client.idle)
            until(lambda: descriptors() <= handles + clients)
            assert threading.active_count() <= threads
            assert client.resident() < memory * 1.05
        accepted, found = client.balance()
        assert accepted == found
        assert client.metric("num_rows_running") == 0
        assert client.metric("kv_cache_usage_perc") == 0
    assert reading.requests > count // 2, "there is a log of requests"
    assert not reading.leaked
    assert sum(outcomes.values()) == count
    assert {int(each) for each in outcomes if each != "left"} <= PLANNED
    assert outcomes["200"] > count // 2
