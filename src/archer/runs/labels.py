"""What runs are called beside each other, and in which order problems are shown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def own_label(identity: Mapping[str, Any]) -> str:
    """The method, and the one setting that mostly tells runs apart."""
    method = identity["method"]
    radius = method["settings"].get("radius")
    return str(method["name"]) if radius is None else f"{method['name']} radius={radius}"


def labels(runs: Sequence[tuple[Path, Mapping[str, Any]]]) -> list[str]:
    """A label for each run, by folder and identity: different ones for different runs.

    Where methods are the same, the settings that differ follow; where none does, the folder.
    """
    plain = [own_label(identity) for _, identity in runs]
    settings = [identity["method"]["settings"] for _, identity in runs]
    with_settings = [
        " ".join([label, *_differing(settings[at], _alike(plain, settings, label))])
        for at, label in enumerate(plain)
    ]
    names = Counter(path.name for path, _ in runs)
    counted = Counter(with_settings)
    return [
        label
        if counted[label] == 1
        else f"{label} ({path.name if names[path.name] == 1 else path})"
        for label, (path, _) in zip(with_settings, runs, strict=True)
    ]


def in_order(keys: Sequence[str]) -> list[str]:
    """Keys of problems as people count: 2 before 10."""
    return sorted(keys, key=_natural)


def _alike(
    plain: Sequence[str], settings: Sequence[Mapping[str, Any]], label: str
) -> list[Mapping[str, Any]]:
    return [each for own, each in zip(plain, settings, strict=True) if own == label]


def _differing(own: Mapping[str, Any], all_of_them: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"{name}={value}"
        for name, value in sorted(own.items())
        if any(other.get(name) != value for other in all_of_them)
    ]


def _natural(key: str) -> list[tuple[int, int, str]]:
    """Numbers inside a key by value, the rest as text."""
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part)
        for part in re.split(r"(\d+)", key)
        if part
    ]
