"""Measured rows as lines of fixed columns, each written as soon as it is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archer.cli.output import write_line

WIDTH = 9


class Table:
    """Writes its head at once and every row when it comes; `first` is the width of the first column."""

    def __init__(self, columns: Sequence[str], first: int = WIDTH) -> None:
        self._widths = [max(WIDTH, len(name)) for name in columns]
        self._widths[0] = max(first, len(columns[0]))
        self.row(*columns)

    def row(self, *values: object) -> None:
        cells = zip(map(_cell, values), self._widths, strict=True)
        write_line(" ".join(f"{cell:>{width}}" for cell, width in cells))


def write_machine(machine: Mapping[str, Any]) -> None:
    """One line about what the figures were measured on."""
    facts = ("cpu", "cores", "threads", "device", "dtype", "torch", "load")
    write_line("  ".join(f"{name} {machine[name]}" for name in facts))


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3f}"
    return str(value)
