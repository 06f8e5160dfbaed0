"""How a model learnt: `python -m pocket_training.curve FOLDER` makes one JSON object of a run's log."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pocket_training import checkpoint

LOG = "log.jsonl"
SCORES = ("base", "extended", "solved", "at_once")


def curve(folder: Path) -> dict[str, Any]:
    """Loss and scores on dev problems by sequences seen, without what came after the last checkpoint."""
    progress, _ = checkpoint.load(checkpoint.existing(folder)[-1])
    lines = [json.loads(line) for line in (folder / LOG).read_text(encoding="utf-8").splitlines()]
    kept: dict[int, dict[str, Any]] = {
        line["sequences"]: {} for line in lines if line["sequences"] <= progress.sequences
    }
    for line in lines:
        if line["sequences"] in kept:
            kept[line["sequences"]] |= line
    points = [kept[sequences] for sequences in sorted(kept)]
    return {
        "model": progress.model,
        "sequences": progress.sequences,
        "minutes": round(progress.minutes, 2),
        "loss": [[point["sequences"], point["loss"]] for point in points if "loss" in point],
        "dev": [
            [point["sequences"], *(point[score] for score in SCORES if score in point)]
            for point in points
            if any(score in point for score in SCORES)
        ],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(curve(Path(sys.argv[1])), indent=1) + "\n")
