"""kill -9 at random moments: resumed runs have byte-identical results, and nothing is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent


def killed(work: Path, kills: int, seed: int) -> None:
    temporary = work / "temporary"
    temporary.mkdir()
    path = os.pathsep.join([str(TESTS), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "runs.killing", str(work), str(kills), str(seed)],
        env=os.environ | {"PYTHONPATH": path, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["finished"] is True
    assert found["same"] == found["kills"] == kills
    assert found["cut"] >= kills // 2, "most kills must come before the end to mean anything"
    assert found["left"] == 0
    assert list(temporary.iterdir()) == []


def test_runs_survive_kills(tmp_path: Path) -> None:
    killed(tmp_path, kills=2, seed=1)


@pytest.mark.slow
def test_runs_survive_a_hundred_kills(tmp_path: Path) -> None:
    killed(tmp_path, kills=100, seed=2)
