"""kill -9 at random moments: a search that goes on makes the same choice from the same records."""

from pathlib import Path

import pytest

from support.processes import reported


@pytest.mark.parametrize(("kills", "seed"), [(1, 1), pytest.param(10, 2, marks=pytest.mark.slow)])
def test_a_search_survives_kills(tmp_path: Path, kills: int, seed: int) -> None:
    report = reported("tune.killing", tmp_path, kills, seed)
    assert report["finished"] is True
    assert report["same"] == report["kills"] == kills
    assert report["cut"] >= (kills + 1) // 2, "most kills must come before the end to mean anything"
    assert report["tight"] is True
