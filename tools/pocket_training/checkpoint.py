"""Checkpoints of a training run: safetensors and JSON, written whole or not at all.

A checkpoint is a folder `step-00001234` with `state.safetensors` and `state.json`. It is written beside
its final name and renamed, the two newest are kept, and a damaged one is refused by name.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from archer.errors import ArcherError

KEPT = 2
_TENSORS, _STATE = "state.safetensors", "state.json"


class BadCheckpoint(ArcherError):
    """A training checkpoint cannot be read or written."""


@dataclass(frozen=True)
class Progress:
    """Where a run stands; together with the tensors, all that is needed to go on."""

    seed: int
    step: int
    pool: int
    """The next pool of training sequences."""
    sequences: int
    minutes: float
    """Time spent training, over all runs."""
    model: str = "pocket"
    """Which of the variants is trained."""


def save(folder: Path, progress: Progress, tensors: dict[str, Tensor]) -> Path:
    """Write a checkpoint; an error leaves the earlier ones as they were."""
    final = folder / f"step-{progress.step:08d}"
    draft = folder / f".draft-{final.name}"
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        save_file(tensors, draft / _TENSORS)
        record = {**asdict(progress), "digest": _digest(draft / _TENSORS)}
        (draft / _STATE).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        shutil.rmtree(final, ignore_errors=True)
        draft.rename(final)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise BadCheckpoint(
            f"The checkpoint {final} could not be written: {error}. Earlier checkpoints are intact. "
            "Make room or choose another folder, then start the same command again."
        ) from error
    for old in existing(folder)[:-KEPT]:
        shutil.rmtree(old)
    return final


def existing(folder: Path) -> list[Path]:
    """Finished checkpoints, oldest first."""
    return sorted(folder.glob("step-*"))


def load(path: Path) -> tuple[Progress, dict[str, Tensor]]:
    """Read one checkpoint, refusing it unless every byte is what was written."""
    try:
        record = json.loads((path / _STATE).read_text(encoding="utf-8"))
        digest = record.pop("digest")
        progress = Progress(**record)
        if _digest(path / _TENSORS) != digest:
            raise ValueError("its tensors differ from what was written")
        return progress, load_file(path / _TENSORS)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, SafetensorError) as error:
        raise BadCheckpoint(
            f"The checkpoint {path} cannot be used: {error}. "
            "Delete that folder to go on from the one before it."
        ) from error


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
