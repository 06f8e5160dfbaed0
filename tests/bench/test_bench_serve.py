"""`archer bench serve`: small, on a server of its own."""

import io
import json
import queue
import time
from pathlib import Path
from typing import Any, cast

import pytest

from archer.bench import serve
from archer.bench.serve import _clients, _in_turn, _left, _measured, _port, _server, _wait_for
from archer.bench.traffic import Load
from archer.cli import main
from archer.costs.recording import MeasuredLoad, recording_of
from archer.errors import ArcherError
from archer.model import load
from planning.against_server import compared


@pytest.mark.slow
def test_a_small_measurement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn")
    figure = tmp_path / "latency.svg"
    command = ["bench", "serve", "--requests", "1", "--clients", "2", "--loads", "0.5"]
    command += ["--mixes", "5"]
    assert main([*command, "--figure", str(figure), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["load"] for row in found["rows"]] == ["2 clients", "arrivals 0.5"]
    for row in found["rows"]:
        assert 0 < row["requests"] <= 2
        assert 0 < row["p50"] <= row["p99"]
        assert 0 <= row["goodput"] <= row["throughput"]
        assert row["cpu"] >= 0
    assert found["start_seconds"] > 0
    assert found["overhead"] == pytest.approx(found["server_cpu"] / found["direct_cpu"] - 1)
    assert found["cancel_seconds"] > 0
    assert figure.read_text(encoding="utf-8").startswith("<?xml")
    recording = recording_of(found, "the result")
    assert [run.load for run in recording.runs] == ["2 clients", "arrivals 0.5"]
    assert [len(run.waits) for run in recording.runs] == [1, 1]
    assert all(each.updates > 0 for each in recording.trajectories)
    for each in compared(recording):
        assert each.measured > 0
        assert each.simulated > 0
    assert [len(table.rows) for table in serve.tables(found)] == [2, 5]


@pytest.mark.slow
def test_a_server_that_does_not_start_is_an_error() -> None:
    with pytest.raises(ArcherError, match="The server did not start"), _server("/nowhere", ()):
        raise AssertionError("it started")


class Fake:
    """A server of which a test says what it answers and what runs."""

    cpu = 0.0

    def __init__(self, running: int = 0, updates: int = 0) -> None:
        self._running, self._updates = running, updates

    def running(self) -> int:
        return self._running

    def opened(self, body: Any) -> Any:
        return io.StringIO()

    def ask(self, body: Any) -> bytes:
        return json.dumps({"usage": {"archer": {"updates": self._updates}}}).encode()


def test_nothing_is_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "LEFT_SECONDS", 0.02)
    with pytest.raises(ArcherError, match=r"was not seen running within 0\.02 s"):
        _left(cast("Any", Fake()), {})
    with pytest.raises(ArcherError, match=r"was still running within 0\.02 s"):
        _left(cast("Any", Fake(running=1)), {})
    silent: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    with pytest.raises(ArcherError, match="was not ready within 600 s"):
        _port(silent, time.monotonic() + 0.02)
    _wait_for(lambda: True, "never said")


def test_a_load_under_which_nothing_was_answered_is_told() -> None:
    run = MeasuredLoad("arrivals 0.8", (5.0,), seconds=0.01)
    with pytest.raises(ArcherError, match=r"'arrivals 0.8': none began within 0\.01 s"):
        _measured(run, lambda *_: ([], 1.0), cast("Any", Fake()), [], [], 1.0)


def test_the_loop_makes_as_many_updates_as_the_server() -> None:
    model = load("pocket", device="cpu")
    (request,) = Load(1, prompts=(4, 4), lengths=(8,), methods=("llada-confidence",)).draw(model)
    for updates in (3, 8):
        server = cast("Any", Fake(updates=updates))
        _, (made,), _, _ = _in_turn(model, [request], [{"model": ""}], server)
        assert made.updates == updates


def test_one_client_is_one_client() -> None:
    assert [_clients(1), _clients(4)] == ["1 client", "4 clients"]
