"""Record what the bundled model answers, for its tests and for `archer doctor --selftest`.

`python docs/record_pocket.py`, to be run once after the model has been exported anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import archer
from archer.pocket import frozen, prompts

TARGET = Path(__file__).parent.parent / "src" / "archer" / "pocket" / "recorded.json"
SETTINGS = {"method": "archer", "radius": 8}
PROBLEMS = 50


def main() -> None:
    model = archer.load("pocket", device="cpu", dtype="float32")
    completions = {
        task.name: model.generate(prompts.message(task), **SETTINGS)[0].text
        for task in frozen.load("test")[:PROBLEMS]
    }
    recorded = {"settings": SETTINGS, "completions": completions}
    TARGET.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
