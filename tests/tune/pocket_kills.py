"""A search as users make it, and its copy that is killed again and again: do they choose the same?

    OMP_NUM_THREADS=1 python tests/tune/pocket_kills.py WORK MINUTES KILLS SEED

Runs `archer tune pocket` twice, side by side, for so many minutes each.  The second starts from the
calibration of the first, is killed by SIGKILL at drawn moments and started again.  Prints one JSON object.
Too long for the tests, which do the same with a tiny model (`test_tune_kill.py`).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

from archer.tune.result import NAME
from archer.tune.search import ASKED, CALIBRATION

OPENING = 0.9
"""Share of the minutes within which the moments are drawn: later the search may be over."""


def started(out: Path, minutes: float) -> subprocess.Popen[bytes]:
    """The command, in a process group of its own, so that its judge is killed with it."""
    command = [sys.executable, "-m", "archer", "tune", "pocket", "--budget", f"{minutes:g}"]
    said = (out.parent / f"{out.name}.log").open("ab")
    return subprocess.Popen(
        [*command, "--out", str(out)], stdout=said, stderr=said, start_new_session=True
    )


def killed(out: Path, minutes: float, moments: list[float]) -> int:
    """Run to the end in spite of the kills; how many of these met a running search."""
    begun, cut = time.monotonic(), 0
    for moment in moments:
        process = started(out, minutes)
        try:
            process.wait(max(0.0, begun + moment - time.monotonic()))
            return cut
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            cut += 1
    started(out, minutes).wait()
    return cut


def told(out: Path) -> dict[str, Any]:
    """A result without what a clock said."""
    found: dict[str, Any] = json.loads((out / f"{NAME}.json").read_text(encoding="utf-8"))
    for row in found["rows"]:
        del row["seconds"]
    return found


def main(work: Path, minutes: float, kills: int, seed: int) -> dict[str, Any]:
    straight, broken = work / "straight", work / "killed"
    work.mkdir(parents=True)
    first = started(straight, minutes)
    while not (straight / CALIBRATION).exists():
        if first.poll() is not None:
            raise SystemExit(f"The search ended before its calibration; see {work}/straight.log.")
        time.sleep(0.5)
    broken.mkdir()
    for name in (ASKED, CALIBRATION):
        shutil.copy(straight / name, broken / name)
    rng = Random(seed)
    moments = sorted(rng.uniform(0, OPENING * 60 * minutes) for _ in range(kills))
    cut = killed(broken, minutes, moments)
    first.wait()
    results = [told(folder) for folder in (straight, broken)]
    return {
        "kills": kills,
        "cut": cut,
        "same": results[0] == results[1],
        "choices": [result["choice"]["method"] for result in results],
    }


if __name__ == "__main__":
    found = main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    sys.stdout.write(json.dumps(found) + "\n")
