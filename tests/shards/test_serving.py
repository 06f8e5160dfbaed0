"""A server whose model is divided: it answers as a whole one would, and ends with its shards."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from archer.errors import ShardLost
from archer.model import Model, load
from archer.server.lifecycle import Server
from archer.server.settings import ServerSettings
from archer.shards.leader import Leader
from archer.shards.processes import Processes
from support.folders import make_llada

WITHIN = 10.0


def is_ready(client: httpx.Client) -> bool:
    """Whether it is; a server whose thread has only just been started does not listen yet."""
    try:
        return client.get("/ready").status_code == 200
    except httpx.ConnectError:
        return False


def test_a_server_over_shards(tmp_path: Path) -> None:
    folder = make_llada(tmp_path / "model", tokenizer=True)
    given: dict[str, Any] = {"device": "cpu", "dtype": "float64"}
    loaded: list[Model] = []

    def load_shared() -> Model:
        loaded.append(load(folder, shards=2, **given))
        return loaded[0]

    server = Server(load_shared, ServerSettings(budget=64), port=0)
    raised: list[BaseException] = []

    def run() -> None:
        try:
            server.run()
        except ShardLost as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            last = time.monotonic() + 90
            while not is_ready(client):
                assert time.monotonic() < last
                assert thread.is_alive()
                time.sleep(0.1)
            body = {
                "model": "model",
                "messages": [{"role": "user", "content": "hello"}],
                "max_tokens": 16,
                "archer": {"method": "confidence"},
            }
            reply = client.post("/v1/chat/completions", json=body)
            assert reply.status_code == 200
            whole = load(folder, **given).generate("hello", "confidence", length=16)[0]
            assert reply.json()["choices"][0]["message"]["content"] == whole.text
        leader = loaded[0].network.all_shards
        assert isinstance(leader, Leader)
        assert isinstance(leader._others, Processes)
        os.kill(leader._others.pids[0], signal.SIGKILL)
        thread.join(WITHIN)
        assert not thread.is_alive()
        with pytest.raises(ShardLost, match="Shard 2 of 2 ended by SIGKILL"):
            raise raised[0]
    finally:
        if thread.is_alive():
            server.stop()
            server.stop()
        thread.join()
        for model in loaded:
            model.close()
