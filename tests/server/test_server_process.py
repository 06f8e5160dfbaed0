"""`archer serve` as a process: its start, its signals, what it writes, and curl."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from archer.model import Model
from archer.server.settings import ServerSettings
from server.running import CHAT, PATIENCE, PROBLEM, Client, chat, listens, slow, until
from support.processes import end

SECRET = "a prompt that nobody may read in a log"
DRAIN = ServerSettings().drain
"""Who ends sooner has not waited for anything."""
STARTING = 180.0
"""Seconds in which a busy machine has imported torch and loaded the model."""
SERVING = "from archer.cli import main; raise SystemExit(main())"


class Process:
    """A server of its own; `wrote` is everything it has written so far."""

    def __init__(self, *options: str, code: str = SERVING) -> None:
        command = [sys.executable, "-c", code, "serve", "--port", "0", "--threads", "1", *options]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=dict(os.environ),
        )
        self.wrote = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.wrote += line

    def ready(self, words: str = "is ready at") -> Client:
        until(lambda: words in self.wrote or self.process.poll() is not None, STARTING)
        found = re.search(r"http://127\.0\.0\.1:(\d+) ", self.wrote)
        assert found, self.wrote
        client = Client.__new__(Client)
        client.port, client.key = int(found[1]), None
        return client

    def end(self) -> int:
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code


@contextmanager
def process(*options: str, code: str = SERVING) -> Iterator[Process]:
    made = Process(*options, code=code)
    try:
        yield made
    finally:
        made.process.kill()
        made._reader.join(PATIENCE)
        end(made.process)


def asked_on_the_side(client: Client, body: Any) -> tuple[threading.Thread, list[Any]]:
    replies: list[Any] = []
    thread = threading.Thread(target=lambda: replies.append(client.post(CHAT, body)))
    thread.start()
    until(lambda: client.metric("num_requests_running") > 0)
    return thread, replies


def by_curl(curl: str, client: Client) -> str:
    body = json.dumps(chat(max_tokens=8, stream=True))
    url = f"http://127.0.0.1:{client.port}{CHAT}"
    ran = subprocess.run(
        [curl, "-sN", url, "-H", "content-type: application/json", "-d", body],
        capture_output=True,
        check=True,
    )
    lines = ran.stdout.decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    return "".join(c["choices"][0]["delta"].get("content", "") for c in chunks)


def test_start_curl_and_a_quiet_end(pocket: Model) -> None:
    (done,) = pocket.generate(PROBLEM, length="auto", max_length=8)
    with process("--max-length", "64") as server:
        client = server.ready()
        assert client.ask(SECRET, max_tokens=4).status == 200
        assert client.ask(SECRET, max_tokens=65).status == 400
        if (curl := shutil.which("curl")) is not None:
            assert by_curl(curl, client) == done.text
        else:
            assert os.environ.get("CI") != "true", "curl is part of what this tests: install it"
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.end() == 0
        assert time.monotonic() - began < DRAIN
    assert SECRET not in server.wrote
    assert "Traceback" not in server.wrote
    assert len(server.wrote.splitlines()) == 1, server.wrote


@pytest.mark.slow
def test_one_signal_drains_and_the_process_says_that_nothing_was_cut() -> None:
    with process() as server:
        client = server.ready()
        thread, replies = asked_on_the_side(client, slow(128))
        server.process.send_signal(signal.SIGTERM)
        until(lambda: client.get("/ready").status == 503)
        thread.join(PATIENCE)
        assert replies[0].status == 200
        assert server.end() == 0
    assert "1 request may finish" in server.wrote


@pytest.mark.slow
def test_two_signals_cut_and_the_process_says_so() -> None:
    with process() as server:
        client = server.ready()
        thread, replies = asked_on_the_side(client, slow(900))
        began = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        until(lambda: "may finish" in server.wrote)
        server.process.send_signal(signal.SIGTERM)
        assert server.end() == 1
        assert time.monotonic() - began < DRAIN
        thread.join(PATIENCE)
        assert replies[0].json["error"]["code"] == "stopping"
    assert "1 request was cut off" in server.wrote


LOADING = """
import torch
from archer.cli import main
from archer.server import lifecycle
def load():
    found = torch.eye(64)
    while True:
        found = torch.nn.functional.linear(found, found)
class Loading(lifecycle.Server):
    def __init__(self, _, *how):
        super().__init__(load, *how)
        print(f"listens at {self.url} ", flush=True)
lifecycle.Server = Loading
raise SystemExit(main())
"""
"""`archer serve` of a model whose load never ends and is inside torch all the time.

Where the interpreter is taken down meanwhile, that thread aborts the process.
"""


def test_told_to_stop_while_it_loads_it_ends_at_once() -> None:
    with process(code=LOADING) as server:
        client = server.ready("listens at")
        until(lambda: listens(client))
        assert client.get("/ready").json["error"]["code"] == "loading"
        server.process.send_signal(signal.SIGTERM)
        assert server.end() == 0, server.wrote
    assert len(server.wrote.splitlines()) == 1, server.wrote


NEVER = """import time
from pydantic.dataclasses import dataclass
from archer.extend import Rule
from archer.extend import one_block
@dataclass(frozen=True)
class Never(Rule):
    \"\"\"Never returns.\"\"\"
    def canvas(self, state):
        return one_block(state, state.masked)
    def step(self, state, logits):
        time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("signals", [1, 2])
def test_a_method_that_never_returns_does_not_keep_the_process(
    tmp_path: Path, signals: int
) -> None:
    """Without a second signal it gets the drain and a few seconds more."""
    (tmp_path / "never.py").write_text(NEVER)
    method = f"{tmp_path / 'never.py'}:Never"
    drain = 60.0 if signals == 2 else 1.0
    with process("--drain", str(drain), "--method", method, "--allow-own-code") as server:
        client = server.ready()
        with closing(client.raw(CHAT, chat(max_tokens=8))):
            until(lambda: client.metric("num_requests_running") > 0)
            began = time.monotonic()
            for _ in range(signals):
                server.process.send_signal(signal.SIGTERM)
                time.sleep(0.2)
            assert server.end() == 1
            assert time.monotonic() - began < (10.0 if signals == 2 else drain + 20.0)
    assert "does not end by itself" in server.wrote
    assert "Traceback" not in server.wrote


@pytest.mark.slow
def test_fifty_ends_under_load() -> None:
    for turn in range(50):
        with process("--drain", "1") as server:
            client = server.ready()
            threads = [asked_on_the_side(client, slow(64 + 8 * turn))[0] for _ in range(2)]
            server.process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            assert server.end() in (0, 1)
            assert time.monotonic() - began < DRAIN
            for thread in threads:
                thread.join(PATIENCE)
