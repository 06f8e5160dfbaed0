"""Options as they would be typed, so that a report can tell the command that made it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any


def spelled(options: Any) -> Iterator[str]:
    """The options of a group that are not at their defaults; switches without a value."""
    for each in fields(options):
        value = getattr(options, each.name)
        if value == each.default:
            continue
        yield f"--{each.name.replace('_', '-')}"
        if value is not True:
            yield str(value)
