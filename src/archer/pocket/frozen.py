"""The dev, test and confirm sets as files: what is published, checked against their digests when read."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from typing import Literal

from archer.errors import BadRequest
from archer.pocket.problems import Problem, distinct

Held = Literal["dev", "test", "confirm"]
SIZES: dict[Held, int] = {"dev": 200, "test": 400, "confirm": 1000}
DIGESTS: dict[Held, str] = {
    "dev": "1831a14cda23683666015fb7da5a47455c83c78f28610f499ba10baebb6264a5",
    "test": "7511d9c3de3686fca98b913434956c355ca5d2996519f3c450aba5c1e2ca3d76",
    "confirm": "d2763338282399d508f4cd8970f3ec5f7c6287cee542665e93542aa64c2f5ee5",
}
"""sha256 of each file."""


def made(split: Held) -> str:
    """The text of a set, made anew by the generator: one JSON object per line.

    `confirm` has structures that are held out like those of `test` and are in neither of the other sets.
    """
    known = {task.structure for task in load("test")} if split == "confirm" else ()
    found = distinct(split, SIZES[split], known)
    return "\n".join(json.dumps(task.record(), ensure_ascii=True) for task in found) + "\n"


def load(split: Held) -> list[Problem]:
    """The problems of a set, from its file."""
    data = files("archer.pocket").joinpath(f"data/{split}.jsonl").read_bytes()
    return parse(data, split)


def parse(data: bytes, split: Held) -> list[Problem]:
    """The problems in a set's bytes; refused when they are not the published ones."""
    found = hashlib.sha256(data).hexdigest()
    if found != DIGESTS[split]:
        raise BadRequest(
            f"The {split} set of pocket is damaged: its sha256 is {found[:12]}..., "
            f"not {DIGESTS[split][:12]}... Install the package again."
        )
    return [Problem.of(json.loads(line)) for line in data.decode("ascii").splitlines()]
