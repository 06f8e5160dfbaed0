"""`archer bench serve`: small, on a server of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from archer.bench import report
from archer.cli import main


def test_a_small_measurement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn")
    figure = tmp_path / "latency.svg"
    command = ["bench", "serve", "--requests", "1", "--clients", "2", "--loads", "0.5"]
    assert main([*command, "--figure", str(figure), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["load"] for row in found["rows"]] == ["2 clients", "arrivals 0.5"]
    for row in found["rows"]:
        assert 0 < row["requests"] <= 2
        assert 0 < row["p50"] <= row["p99"]
        assert 0 <= row["goodput"] <= row["throughput"]
        assert row["cpu"] > 0
    assert found["start_seconds"] > 0
    assert found["overhead"] == pytest.approx(found["server_cpu"] / found["direct_cpu"] - 1)
    assert found["cancel_seconds"] > 0
    assert figure.read_text(encoding="utf-8").startswith("<?xml")
    assert len(report.serves(found)) == 3
    assert len(report.serving_costs(found)) == 6


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        (["--requests", "0"], "--requests takes a whole number"),
        (["--clients", "0"], "--clients takes whole numbers"),
        (["--loads", "much"], "--loads takes numbers above 0"),
        (["--seconds", "0"], "--seconds takes a number above 0"),
    ],
)
def test_what_makes_no_sense_is_refused(
    options: list[str], phrase: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "serve", *options]) == 2
    assert phrase in capsys.readouterr().err


def test_a_server_that_does_not_start_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    from archer.bench.serve import _server
    from archer.errors import ArcherError

    with pytest.raises(ArcherError, match="The server did not start"), _server("/nowhere", ()):
        raise AssertionError("it started")
