"""Writing files so that a reader sees the old content or the new one, never a part."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archer.errors import reason_of
from archer.runs.faults import BadRun, DiskFault


def replace_file(path: Path, content: bytes) -> None:
    """The content under this name, whole or not at all, also after a power cut."""
    beside = path.with_name(f"{path.name}.new")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise DiskFault.of(path, error) from error


def replace_json(path: Path, value: Mapping[str, Any]) -> None:
    """A JSON object for people and programs."""
    replace_file(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; BadRun when there is none."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise BadRun(f"{path} cannot be read ({reason_of(error)}).") from error
    except (ValueError, RecursionError) as error:
        raise BadRun(f"{path} is damaged: it holds no JSON ({error}).") from error
    if not isinstance(value, dict):
        raise BadRun(f"{path} is damaged: it holds no JSON object.")
    return value


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
