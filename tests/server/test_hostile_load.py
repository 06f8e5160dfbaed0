"""A server under all that is hostile at once, and three keys of which one is greedy. Slow."""

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from archer.costs.service import percentile
from server.extreme_fields import INFILL, PROMPT, Sent, everything
from server.running import CHAT, TEXT, Client, chat, until
from server.test_body_cost import MANY, made
from server.test_server_fuzz import RAW, exchange
from server.test_server_process import process
from server.test_structures import HOSTILE
from support.extremes import LENGTH

KEYS = ("the-key-of-a-greedy-one", "the-key-of-the-second", "the-key-of-the-third")
ROUNDS = 40
"""Requests of each modest key, one after the other."""
CLIENTS = 20
"""Of the greedy key, at once: ten for each of the others'."""
MOST_BYTES = 1_200_000_000
HEALTHY_SECONDS = 1.0
"""For /health at every moment."""
PARTS = 4
"""Of the corpus, which takes its time."""
log = logging.getLogger(__name__)
SECRET = "a prompt that nobody may read in a log"


def latencies(clients: list[Client]) -> tuple[list[list[float]], Counter[int]]:
    """Of modest clients that ask one after the other, and what they were answered."""
    answers: Counter[int] = Counter()

    def ask(client: Client) -> list[float]:
        taken = []
        for number in range(ROUNDS):
            began = time.monotonic()
            answers[client.ask(max_tokens=32, seed=number).status] += 1
            taken.append(time.monotonic() - began)
        return taken

    with ThreadPoolExecutor(len(clients)) as pool:
        return list(pool.map(ask, clients)), answers


@contextmanager
def greedy(client: Client) -> Iterator[Counter[int]]:
    """Clients of one key that never stop asking."""
    over, answers = threading.Event(), Counter[int]()

    def ask() -> None:
        while not over.is_set():
            answers[client.ask(max_tokens=32).status] += 1

    threads = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        over.set()
        for thread in threads:
            thread.join()


def busy(asked: Counter[int]) -> bool:
    """Every greedy client has had an answer, on average."""
    return asked.total() >= CLIENTS


@pytest.mark.slow
def test_a_greedy_key_at_most_doubles_the_others_p99(tmp_path: Path) -> None:
    """Measured by turns, because a machine is not equally busy all the time; the median of three.

    Clients are in another process than the server, as all are: theirs would wait for its interpreter.
    """
    keys = tmp_path / "keys"
    keys.write_text("\n".join(KEYS), encoding="utf-8")
    keys.chmod(0o600)
    with process("--queue", "8", "--api-key-file", str(keys)) as server:
        greedy_one, *others = map(server.ready().under, KEYS)
        latencies(others)
        ratios: list[list[float]] = []
        answers: Counter[int] = Counter()
        for _ in range(3):
            alone, _ = latencies(others)
            with greedy(greedy_one) as asked:
                until(partial(busy, asked))
                beside, own = latencies(others)
            answers += own
            pairs = zip(beside, alone, strict=True)
            ratios.append([percentile(b, 99) / percentile(a, 99) for b, a in pairs])
        assert set(answers) == {200}, "nobody below its share gets a 429"
        middle = sorted(max(each) for each in ratios)[1]
        log.info("p99 with a greedy key over p99 without: %s", ratios)
        assert middle <= 2.0, ratios


class Watching:
    """Asks after a server all the time, and how large it is."""

    def __init__(self, client: Client) -> None:
        self._client, self._over = client, threading.Event()
        self.slowest, self.largest = 0.0, 0
        self.delayed = 0.0
        """The longest that this thread itself was kept waiting: no server is quicker than its machine."""
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "Watching":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            time.sleep(PAUSE)
            rested = time.monotonic()
            assert self._client.get("/health").status == 200
            self.slowest = max(self.slowest, time.monotonic() - rested)
            self.delayed = max(self.delayed, rested - began - PAUSE)
            self.largest = max(self.largest, self._client.resident())


PAUSE = 0.05
"""Seconds between two looks."""
LARGE: list[Sent] = [
    (CHAT, chat("x " * 400_000)),
    (TEXT, {"model": "pocket", "prompt": ["a" * 60_000] * 16, "max_tokens": 8}),
    *((CHAT, chat(SECRET, max_tokens=256, **fields)) for fields, _ in HOSTILE),
    *(
        (CHAT, chat(SECRET, max_tokens=900, guided_regex=f"[ -~]{{0,{count}}}"))
        for count in range(800, 900, 10)
    ),
    (CHAT, chat(SECRET, max_tokens=300, n=8, temperature=1.0, archer={"return_states": True})),
    (TEXT, {"model": "pocket", "prompt": "a @ " * 200, "max_tokens": 1, "archer": {"gap": "@"}}),
    (TEXT, {"model": "pocket", "prompt": "a = ", "suffix": "\n", "max_tokens": 900}),
    (INFILL, {"input_prefix": "a", "input_extra": [{"text": "b" * 4000}] * 200}),
]
"""Small requests that would cost a lot, and large ones."""


def corpus() -> Iterator[tuple[str, bytes]]:
    """Extreme settings and fields, bodies of all kinds, and sound requests between."""
    for number, (path, body) in enumerate([*everything(), *LARGE]):
        yield path, json.dumps(body).replace(PROMPT, SECRET).encode()
        if number % 100 == 0:
            yield CHAT, json.dumps(chat(SECRET, max_tokens=LENGTH)).encode()
    for kind in MANY:
        content = made(kind)
        yield TEXT if b'"prompt"' in content[:40] else CHAT, content


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_the_whole_hostile_corpus(monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    """Memory of the process, signs of life, no answer by mistake, and no prompt in a log."""
    answers: Counter[int] = Counter()
    monkeypatch.setattr(Client, "patience", 600.0)
    with process("--log-level", "info") as server:
        client = server.ready()

        def send(each: tuple[str, bytes]) -> int:
            path, content = each
            kind = {"content-type": "application/json"}
            return client.send("POST", path, content, kind).status

        with Watching(client) as watching, ThreadPoolExecutor(4) as pool:
            answers.update(pool.map(send, list(corpus())[part::PARTS]))
            for sent in RAW.values():
                exchange(client, sent)
        found = dict(answers), watching.largest, watching.slowest, watching.delayed
        log.info("%s, %d bytes, /health %.2f s, and %.2f s of them the machine's", *found)
        assert client.ask(max_tokens=4).status == 200
        assert watching.largest < MOST_BYTES
        assert watching.slowest < HEALTHY_SECONDS + watching.delayed
    assert not [code for code in answers if code >= 500], answers
    assert SECRET not in server.wrote
    assert "Traceback" not in server.wrote
    assert "POST /v1/chat/completions" in server.wrote, "there is a log of requests"
