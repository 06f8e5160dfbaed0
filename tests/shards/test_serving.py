"""A server whose model is divided: it answers as a whole one would, and ends with its shards."""

import os
import signal
from pathlib import Path
from typing import Any

from archer.errors import ShardLost
from archer.model import Model, load
from archer.server.lifecycle import Server
from archer.server.settings import ServerSettings
from server.running import CHAT, Client, chat, running, until
from shards.pairs_of_models import processes_of
from support.folders import make_llada

WITHIN = 10.0


def test_a_server_over_shards(tmp_path: Path) -> None:
    folder = make_llada(tmp_path / "model", tokenizer=True)
    given: dict[str, Any] = {"device": "cpu", "dtype": "float64"}
    loaded: list[Model] = []

    def load_shared() -> Model:
        loaded.append(load(folder, shards=2, **given))
        return loaded[0]

    server = Server(load_shared, ServerSettings(budget=64), port=0)
    thread, ended = running(server)
    try:
        client = Client(server)
        until(lambda: server.state.serving is not None or not thread.is_alive(), 90)
        body = chat("hello", max_tokens=16, archer={"method": "confidence"}) | {"model": "model"}
        whole = load(folder, **given).generate("hello", "confidence", length=16)[0]
        reply = client.post(CHAT, body)
        assert reply.json["choices"][0]["message"]["content"] == whole.text
        os.kill(processes_of(loaded[0]).pids[0], signal.SIGKILL)
        thread.join(WITHIN)
        assert not thread.is_alive()
        (lost,) = ended
        assert isinstance(lost, ShardLost)
        assert "Shard 2 of 2 ended by SIGKILL" in str(lost)
    finally:
        if thread.is_alive():
            server.stop()
            server.stop()
        thread.join()
        for model in loaded:
            model.close()
