"""Kills searches at random moments and goes on with them; run by `test_search.py` in its own process.

    python -m tune.killing WORK KILLS SEED

Prints one JSON object.
"""

import json
import shutil
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import torch

from archer.files import read_json, replace_json
from archer.model import Model
from archer.tune.choice import Goal
from archer.tune.result import result_of
from archer.tune.search import CALIBRATION
from runs.killing import forked
from runs.toy import toy_model
from tune.tiny import METHODS, PLENTY, Heard, tiny_search

RESULT = "result.json"
FEW = METHODS[:3]
SLOW = 1250.0
"""Seconds per problem with which the budget allows some five of ten problems in the first round."""


def searched(model: Model, out: Path, kill_after: float | None) -> bool:
    """Start a search, kill it after so many seconds; whether it had ended by then."""

    def work() -> None:
        heard = Heard()
        search = tiny_search(model, out, heard, PLENTY, FEW, finalists=2)
        replace_json(out / RESULT, result_of(search, search.run(heard), Goal()))

    return forked(work, kill_after)


def told(out: Path) -> dict[str, Any]:
    """A result without what a clock said."""
    found = read_json(out / RESULT)
    for row in found["rows"]:
        del row["seconds"]
    return found


def main(work: Path, kills: int, seed: int) -> dict[str, object]:
    torch.set_num_threads(1)
    rng, model = Random(seed), toy_model(work / "model")
    started = time.monotonic()
    finished = searched(model, work / "unbroken", None)
    whole = time.monotonic() - started
    expected = told(work / "unbroken")
    cut = same = 0
    for number in range(kills):
        out = work / f"search-{number}"
        cut += not searched(model, out, rng.uniform(0, whole))
        finished = searched(model, out, None) and finished
        same += told(out) == expected
    tight = _tight(work, model, rng, whole)
    return {"finished": finished, "kills": kills, "cut": cut, "same": same, "tight": tight}


def _tight(work: Path, model: Model, rng: Random, whole: float) -> bool:
    """A search whose budget bites, because it was calibrated as very slow: killed, it ends the same."""
    rows = read_json(work / "unbroken" / RESULT)["rows"]
    rates = {row["arm"]: SLOW / row["operations"] for row in rows}
    found = []
    for name, kill_after in (("straight", None), ("killed", rng.uniform(0.3, 0.7) * whole)):
        out = work / name
        shutil.copytree(work / "unbroken", out, ignore=lambda *_: ["arms", RESULT])
        replace_json(
            out / CALIBRATION,
            {"seconds_per_operation": rates, "seconds_per_run": 0.0, "workers": 1},
        )
        if kill_after is not None:
            searched(model, out, kill_after)
        searched(model, out, None)
        found.append(told(out))
    others = told(work / "unbroken")["settings"]["rounds"]
    return found[0] == found[1] and found[0]["settings"]["rounds"] != others


if __name__ == "__main__":
    report = main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.write(json.dumps(report) + "\n")
