"""Draw the training run that `examples/grpo_pocket.json` records: `python docs/picture_grpo.py`."""

import json
from pathlib import Path
from typing import Any

from archer.pages.figures import Labels, Series, lines

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "images" / "grpo.svg"
SMOOTHED = 5
"""Steps whose mean reward is one point."""


def recorded() -> dict[str, Any]:
    run: dict[str, Any] = json.loads((ROOT / "examples" / "grpo_pocket.json").read_text())
    return run


def drawing() -> str:
    run = recorded()
    measured = [each for each in run["records"] if "pass@1" in each]
    rewards = [each for each in run["records"] if "reward" in each]
    curves = [
        Series(
            f"Pass@1 on pocket-dev, {name}",
            [each["step"] for each in measured],
            [each["pass@1"][name]["mean"] for each in measured],
            [each["pass@1"][name]["low"] for each in measured],
            [each["pass@1"][name]["high"] for each in measured],
        )
        for name in ("greedy", "sampled")
    ]
    groups = [rewards[at : at + SMOOTHED] for at in range(0, len(rewards), SMOOTHED)]
    curves.append(
        Series(
            "reward in training",
            [sum(each["step"] for each in own) / len(own) for own in groups],
            [sum(each["reward"] for each in own) / len(own) for own in groups],
        )
    )
    title = f"GRPO on the bundled model, seed {run['settings']['seed']}"
    return lines(curves, Labels(title, "step", "share that passes all tests")).svg


if __name__ == "__main__":
    TARGET.write_text(drawing(), encoding="utf-8")
