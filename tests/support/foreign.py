"""Packages of other people, as pip leaves them: a module and its metadata in a folder on the path."""

from collections.abc import Mapping
from pathlib import Path

MODULE = '''\
"""A decoder, a policy and a task that Archer has never heard of."""

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from archer.extend import Canvas, Memory, Policy, Scheduled, Scope, prompt_kept
from archer.tasks.pocket import PocketDev


@dataclass(frozen=True)
class Slow(Scheduled):
    """One mask at a time, without haste.

    More is not to be said.
    """

    main: ClassVar[str] = "haste"
    haste: Annotated[int, Field(ge=1)] = 3
    """How much of it there is."""


@dataclass(frozen=True)
class Forgetful(Policy):
    """Keep nothing at all."""

    answers = Scope.RESPONSE

    def recompute(self, canvas: Canvas, memory: Memory):
        return canvas.everything()


@dataclass(frozen=True)
class Recalling(Policy):
    """Refresh the prompt at every third pass, counted by itself."""

    answers = Scope.RESPONSE
    counts_passes = True
    rebuilds = True

    def start(self, canvas: Canvas):
        return {"passes": np.zeros(canvas.rows, dtype=np.int64)}

    def noted(self, canvas: Canvas, memory: Memory, full, logits):
        assert len(logits.rows) == len(full) == canvas.rows
        return {"passes": memory.notes["passes"] + 1}

    def recompute(self, canvas: Canvas, memory: Memory):
        return prompt_kept(canvas, memory, memory.notes["passes"] % 3 == 0)


class Tiny(PocketDev):
    """Two problems only."""

    name = "tiny"

    def samples(self):
        return super().samples()[:2]


NOT_A_DECODER = 7
'''
ENTRIES = {
    "archer.decoders": {"slow": "foreign_parts:Slow", "saber": "foreign_parts:Slow"},
    "archer.policies": {
        "forgetful": "foreign_parts:Forgetful",
        "recalling": "foreign_parts:Recalling",
    },
    "archer.tasks": {"tiny": "foreign_parts:Tiny"},
}


def install(folder: Path, entries: Mapping[str, Mapping[str, str]] | None = None) -> Path:
    """Put the package into a folder, which then belongs on the path."""
    (folder / "foreign_parts.py").write_text(MODULE)
    about = folder / "foreign_parts-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign-parts\nVersion: 1.0\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in (entries or ENTRIES).items()
    ]
    (about / "entry_points.txt").write_text("\n".join(groups))
    return folder
