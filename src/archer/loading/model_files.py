"""The small files of a model folder: found inside it, read up to a cap, parsed strictly.

A model folder comes from somebody else. Nothing in it may make Archer read a file elsewhere, fill
the memory, or see one value where another program sees a different one (duplicate JSON keys).
"""

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from archer.errors import BadModel, cause_of, reason_of

MEGABYTE = 1 << 20

Json = dict[str, object]


def is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def find(folder: Path, name: str) -> Path | None:
    """The path of the regular file `name`, or None; links out are refused, but for the hub cache's blobs."""
    home = folder.resolve()
    path = home / name
    if not os.path.lexists(path):
        return None
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise BadModel(f"{path} is a broken link; download the model folder again.") from error
    if real.parent not in _roots(home):
        raise BadModel(f"{path} leads outside the model folder; put the file itself there.")
    if not real.is_file():
        raise BadModel(f"{path} is not a regular file; download the model folder again.")
    return path


def read_bytes(path: Path, limit: int) -> bytes:
    """The whole file, refused when longer than `limit` bytes."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise BadModel(f"{path} cannot be read: {reason_of(error)}.") from error
    if len(data) > limit:
        raise BadModel(f"{path} is larger than {limit >> 20} MiB, which no known model needs.")
    return data


def read_text(path: Path, limit: int) -> str:
    return decode(read_bytes(path, limit), str(path))


def read_json(path: Path, limit: int) -> Json:
    return parse_json(read_bytes(path, limit), str(path))


def parse_json(data: bytes, where: str) -> Json:
    """A JSON object without duplicate keys; `where` names its origin in the refusal."""
    try:
        value = json.loads(decode(data, where), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else cause_of(error)
        raise BadModel(f"{where} is not valid JSON: {reason}.") from error
    if not isinstance(value, dict):
        raise BadModel(f"{where} must hold one JSON object, not {kind_of(value)}.")
    return value


def decode(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadModel(f"{where} is not UTF-8 text (byte {error.start}).") from error


def kind_of(value: object) -> str:
    """How a JSON value reads in a sentence; long ones are cut."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def some_of(names: Iterable[str]) -> str:
    """Up to three names, quoted, and how many more there are."""
    every = list(names)
    shown = ", ".join(kind_of(name) for name in every[:3])
    return shown if len(every) <= 3 else f"{shown} and {len(every) - 3} more"


def _roots(home: Path) -> list[Path]:
    in_hub_cache = home.parent.name == "snapshots"
    return [home, home.parent.parent / "blobs"] if in_hub_cache else [home]


def _without_duplicates(pairs: list[tuple[str, object]]) -> Json:
    result = dict(pairs)
    if len(result) < len(pairs):
        twice = next(name for name, count in Counter(n for n, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {kind_of(twice)} appears twice")
    return result
