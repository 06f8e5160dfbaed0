"""Results, on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from archer.view.glyphs import one_line, printable


def write_line(text: str) -> None:
    """Exactly one line, into a terminal, a pipe or a file.

    Much of what is shown comes from models, programs and files of others: whatever could break the
    line or steer a terminal is written as an escape.
    """
    sys.stdout.write(f"{one_line(text)}\n")


def write_lines(text: str) -> None:
    """A text whose line breaks are meant."""
    for line in text.split("\n"):
        write_line(line)


def write_text(text: str) -> None:
    """What a model wrote: as it is into a pipe or file; made harmless for a terminal."""
    sys.stdout.write(f"{printable(text) if sys.stdout.isatty() else text}\n")


def write_json(value: Mapping[str, Any]) -> None:
    """One object on one line, in ASCII: it survives every terminal and every encoding."""
    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")
