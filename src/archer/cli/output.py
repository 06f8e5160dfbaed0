"""Results, on stdout: plain in a pipe or a file, fitted to its width in a terminal."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

from cyclopts import Parameter
from rich.cells import cell_len

from archer.errors import BadRequest, one_line, printable

if TYPE_CHECKING:
    from archer.pages.tables import Table

Json = Annotated[
    bool, Parameter(name="--json", help="Print one JSON object instead of text and tables.")
]
NARROWEST = 20
UNBROKEN = 10_000
LIST_MARGIN = 4
"""Lists of names are indented by no more."""


def write_line(text: str, *, hanging: int = 0) -> None:
    """Exactly one line, into a terminal, a pipe or a file.

    Much of what is shown comes from models, programs and files of others: whatever could break the
    line or steer a terminal is written as an escape. A terminal gets it broken between words, and
    with `hanging` indented by so much, so that the rest of a line never looks like the next one.
    """
    line = one_line(text)
    sys.stdout.write(f"{fitted(line, sys.stdout, hanging) if sys.stdout.isatty() else line}\n")


def announce(text: str) -> None:
    """A line that is seen before what it announces begins."""
    write_line(text)
    sys.stdout.flush()


def write_lines(text: str) -> None:
    """A text whose line breaks are meant."""
    for line in text.split("\n"):
        write_line(line)


def write_text(text: str) -> None:
    """Text to copy, never broken: as it is into a pipe or file, made harmless for a terminal."""
    sys.stdout.write(f"{printable(text) if sys.stdout.isatty() else text}\n")


def write_json(value: Mapping[str, Any]) -> None:
    """One object on one line, in ASCII: it survives every terminal and every encoding."""
    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")


def emit(value: Mapping[str, Any], show: Callable[[], None], *, json: bool) -> int:
    """A result: as one JSON object for programs, or as `show` writes it for people; exit code 0."""
    write_json(value) if json else show()
    return 0


def write_table(table: Table) -> None:
    """A table to look at in a terminal, Markdown elsewhere."""
    if not sys.stdout.isatty():
        write_lines(table.markdown())
        return
    (head, numeric), rows = table.shown()
    if table.title:
        write_line(table.title)
    write_grid(head, rows, numeric)
    for note in table.notes:
        write_line(f"  {note}")
    write_line("")


def write_grid(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    numeric: Sequence[bool] = (),
    *,
    gap: int = 2,
) -> None:
    """Columns side by side, no wider than the terminal; line breaks in cells are written as escapes."""
    from rich.console import Console
    from rich.table import Table as Grid

    console = Console(file=sys.stdout, highlight=False, markup=False)
    if not sys.stdout.isatty():
        console.width = UNBROKEN
    head, *rows = ([one_line(cell) for cell in row] for row in (head, *rows))
    columns = list(zip(head, *rows, strict=True))
    widths = allotted(
        [max(map(_longest_word, column)) for column in columns],
        [max(map(cell_len, column)) for column in columns],
        console.width - gap * (len(head) - 1),
    )
    grid = Grid(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for place, name in enumerate(head):
        grid.add_column(
            name,
            justify="right" if numeric and numeric[place] else "left",
            overflow="fold",
            width=widths[place] if widths else None,
        )
    for row in rows:
        grid.add_row(*row)
    console.print(grid)


def check_figure(path: Path) -> None:
    """Refuse before minutes of work what could not be drawn or kept after them."""
    from archer.files import check_target
    from archer.pages.figures import REMEDY, can_draw

    if not can_draw():
        raise BadRequest(REMEDY)
    check_target(path)


def side_by_side(
    names: Sequence[str], columns: Sequence[Sequence[str]], gap: int
) -> list[list[Sequence[str]]]:
    """The columns in groups that fit into the terminal beside a column of names, at least one in each."""
    room = columns_of(sys.stdout) - max(map(_longest_word, names))
    groups: list[list[Sequence[str]]] = []
    left = 0
    for column in columns:
        width = gap + max(map(_longest_word, column))
        if not groups or width > left:
            groups.append([])
            left = room
        groups[-1].append(column)
        left -= width
    return groups


def allotted(least: Sequence[int], most: Sequence[int], room: int) -> list[int]:
    """A width per column: its longest word, the rest shared; empty where even the words do not fit."""
    widths, left = list(least), room - sum(least)
    if left < 0:
        return []
    while left and (hungry := [at for at, width in enumerate(widths) if width < most[at]]):
        for at in hungry[:left]:
            widths[at] += 1
        left -= min(left, len(hungry))
    return widths


def _longest_word(cell: str) -> int:
    return max(map(cell_len, cell.split()), default=0)


def fitted(text: str, stream: TextIO, hanging: int = 0) -> str:
    """The text with its lines broken between words, continuations indented as far as the line was."""
    width = max(NARROWEST, columns_of(stream))
    return "\n".join(_fitted_line(line, width, hanging) for line in text.split("\n"))


def columns_of(stream: TextIO) -> int:
    """How wide the terminal behind a stream is."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return shutil.get_terminal_size().columns


def _fitted_line(line: str, width: int, hanging: int) -> str:
    if cell_len(line) <= width:
        return line
    indent = max(hanging, _hanging(line))
    return textwrap.fill(
        line,
        width,
        subsequent_indent=" " * (indent if indent <= width // 2 else 2),
        break_long_words=hanging > 0,
        break_on_hyphens=False,
        replace_whitespace=False,
        drop_whitespace=True,
    )


def _hanging(line: str) -> int:
    """Where the text of a line starts: behind its margin and, in a list of names, behind the name."""
    margin = len(line) - len(line.lstrip())
    name, gap, rest = line.lstrip().partition("  ")
    if 0 < margin <= LIST_MARGIN and gap and " " not in name:
        return len(line) - len(rest.lstrip())
    return margin
