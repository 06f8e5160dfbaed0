"""kill -9 at random moments: resumed runs have byte-identical results, and nothing is left behind."""

from pathlib import Path

import pytest

from support.processes import reported


@pytest.mark.parametrize(("kills", "seed"), [(2, 1), pytest.param(100, 2, marks=pytest.mark.slow)])
def test_runs_survive_kills(tmp_path: Path, kills: int, seed: int) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    report = reported("runs.killing", tmp_path, kills, seed, TMPDIR=str(temporary))
    assert report["finished"] is True
    assert report["same"] == report["kills"] == kills
    assert report["cut"] >= kills // 2, "most kills must come before the end to mean anything"
    assert report["left"] == 0
    assert list(temporary.iterdir()) == []
