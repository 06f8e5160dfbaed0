"""Results, on stdout: plain in a pipe or a file, fitted to its width in a terminal."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from archer.view.glyphs import printable

if TYPE_CHECKING:
    from archer.report.tables import Table

NARROWEST = 20


def write_line(text: str) -> None:
    """A line as it is into a pipe or file; made harmless for a terminal, and broken between words there."""
    sys.stdout.write(f"{fitted(printable(text), sys.stdout) if sys.stdout.isatty() else text}\n")


def write_text(text: str) -> None:
    """What somebody may copy from the terminal: never broken."""
    sys.stdout.write(f"{printable(text) if sys.stdout.isatty() else text}\n")


def write_json(value: Mapping[str, Any]) -> None:
    """One object on one line, in ASCII: it survives every terminal and every encoding."""
    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")


def write_table(table: Table) -> None:
    """A table to look at in a terminal, Markdown elsewhere."""
    if not sys.stdout.isatty():
        write_line(table.markdown())
        return
    (head, numeric), rows = table.shown()
    if table.title:
        write_line(table.title)
    write_grid(head, rows, numeric)
    for note in table.notes:
        write_line(f"  {note}")
    write_line("")


def write_grid(
    head: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool] = ()
) -> None:
    """Columns side by side, in a terminal no wider than it."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as Grid

    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    numeric = numeric or [False] * len(head)
    for name, right in zip(head, numeric, strict=True):
        grid.add_column(printable(name), justify="right" if right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(printable(cell) for cell in row))
    console = Console(file=sys.stdout, highlight=False, markup=False)
    if not sys.stdout.isatty():
        console.width = 10_000
    console.print(grid)


def fitted(text: str, stream: TextIO) -> str:
    """The text with its lines broken between words, continuations indented as far as the line was."""
    width = max(NARROWEST, columns_of(stream))
    return "\n".join(_fitted_line(line, width) for line in text.split("\n"))


def columns_of(stream: TextIO) -> int:
    """How wide the terminal behind a stream is."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return shutil.get_terminal_size().columns


def _fitted_line(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    indent = _hanging(line)
    return textwrap.fill(
        line,
        width,
        subsequent_indent=" " * (indent if indent < width // 2 else 2),
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
        drop_whitespace=True,
    )


def _hanging(line: str) -> int:
    """Where the text of a line starts: behind its margin and, in a list of names, behind the name."""
    margin = len(line) - len(line.lstrip())
    name, gap, rest = line.lstrip().partition("  ")
    if margin and gap and " " not in name:
        return len(line) - len(rest.lstrip())
    return margin
