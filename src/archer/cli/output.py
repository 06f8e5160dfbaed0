"""Results, on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from archer.view.glyphs import printable


def write_line(text: str) -> None:
    """A line as it is into a pipe or file; made harmless for a terminal."""
    sys.stdout.write(f"{printable(text) if sys.stdout.isatty() else text}\n")


def write_json(value: Mapping[str, Any]) -> None:
    """One object on one line, in ASCII: it survives every terminal and every encoding."""
    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")
