"""Draw the training run that `examples/grpo_pocket.json` records: `python docs/picture_grpo.py`."""

import json
from pathlib import Path

from archer.pages.figures import Labels, Series, lines

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    run = json.loads((ROOT / "examples" / "grpo_pocket.json").read_text())
    steps = run["steps"]
    measured = [
        Series(
            f"Pass@1, {name}",
            [each["step"] for each in run["evaluations"]],
            [
                each["evaluation"][name]["passed"] / each["evaluation"][name]["n"]
                for each in run["evaluations"]
            ],
            [each["evaluation"][name]["low"] for each in run["evaluations"]],
            [each["evaluation"][name]["high"] for each in run["evaluations"]],
        )
        for name in ("greedy", "sampled")
    ]
    reward = Series("reward", [each["step"] for each in steps], [each["reward"] for each in steps])
    labels = Labels("GRPO on the bundled model, seed 0: it becomes worse", "step", "share")
    picture = lines([*measured, reward], labels)
    (ROOT / "docs" / "images" / "grpo.svg").write_text(picture.svg)


if __name__ == "__main__":
    main()
