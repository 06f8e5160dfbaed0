"""kill -9 at random moments: a search that goes on makes the same choice from the same records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent


def killed(work: Path, kills: int, seed: int) -> None:
    path = os.pathsep.join([str(TESTS), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "tune.killing", str(work), str(kills), str(seed)],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["finished"] is True
    assert found["same"] == found["kills"] == kills
    assert found["cut"] >= (kills + 1) // 2, "most kills must come before the end to mean anything"
    assert found["tight"] is True


def test_a_search_survives_kills(tmp_path: Path) -> None:
    killed(tmp_path, kills=1, seed=1)


@pytest.mark.slow
def test_a_search_survives_ten_kills(tmp_path: Path) -> None:
    killed(tmp_path, kills=10, seed=2)
