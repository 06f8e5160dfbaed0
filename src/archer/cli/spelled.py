"""Options as they would be typed, so that a report can tell the command that made it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, get_type_hints

from cyclopts import Parameter


def spelled(options: Any) -> Iterator[str]:
    """The options of a group that are not at their defaults; switches without a value."""
    hints = get_type_hints(type(options), include_extras=True)
    for each in fields(options):
        value = getattr(options, each.name)
        if value == each.default:
            continue
        marks = getattr(hints[each.name], "__metadata__", ())
        names = [name for mark in marks if isinstance(mark, Parameter) for name in mark.name or ()]
        yield names[0] if names else f"--{each.name.replace('_', '-')}"
        if value is not True:
            yield str(value)
