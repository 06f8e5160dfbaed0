"""Tables: built once, written as HTML, Markdown and LaTeX, rounded, and as CSV with every digit."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archer.errors import BadRequest
from archer.pages import embed
from archer.pages.figures import Series

MISSING = "n/a"
PAPER = "paper"


@dataclass(frozen=True)
class Value:
    """A measured number with its interval and what the paper says, as far as there are such."""

    ours: float | None
    low: float | None = None
    high: float | None = None
    paper: float | None = None


Cell = str | float | Value | None
"""None is a value that there is not."""


@dataclass(frozen=True)
class Column:
    """A column; `digits` after the point for numbers that are not whole."""

    name: str
    digits: int = 2
    chance: bool = False
    """Probabilities: one that would round to 0 is told as less than the last digit."""


@dataclass(frozen=True)
class _Shown:
    """A column of the text formats."""

    name: str
    cells: tuple[str, ...]
    numeric: bool
    paper: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under columns, with a title and remarks."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows, start=1):
            if len(row) != len(self.columns):
                raise BadRequest(
                    f"Row {number} of the table {self.title!r} has {len(row)} cells for "
                    f"{len(self.columns)} columns. Give None where there is no value."
                )

    def shown(self) -> tuple[tuple[list[str], list[bool]], list[list[str]]]:
        """Names of the columns and which of them hold numbers, then the rows, rounded, as texts."""
        shown = list(self._shown())
        head = [each.name for each in shown], [each.numeric for each in shown]
        return head, [[each.cells[row] for each in shown] for row in range(len(self.rows))]

    def html(self) -> str:
        shown = list(self._shown())
        head = "".join(f"<th{_html_class(each)}>{embed.text(each.name)}</th>" for each in shown)
        body = "".join(
            "<tr>"
            + "".join(f"<td{_html_class(each)}>{_html_cell(each, row)}</td>" for each in shown)
            + "</tr>\n"
            for row in range(len(self.rows))
        )
        notes = "".join(f"<li>{embed.prose(note)}</li>" for note in self.notes)
        return (
            f'<figure class="table">\n<figcaption>{embed.text(self.title)}</figcaption>\n'
            f'<div class="scroll" tabindex="0" role="region" aria-label="{embed.text(self.title)}">'
            f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n"
            + (f'<ul class="notes">{notes}</ul>\n' if notes else "")
            + "</figure>\n"
        )

    def markdown(self) -> str:
        (head, numeric), rows = self.shown()
        escaped = (list(map(_markdown, row)) for row in rows)
        grid = markdown_grid(list(map(_markdown, head)), escaped, numeric)
        notes = "".join(f"\n- {_markdown(note)}" for note in self.notes)
        return f"**{_markdown(self.title)}**\n\n{grid}\n" + (f"{notes}\n" if notes else "")

    def latex(self) -> str:
        """A table without any package."""
        (names, numeric), rows = self.shown()
        head, *body = (" & ".join(map(_latex, line)) + r" \\" for line in (names, *rows))
        kinds = "".join("r" if each else "l" for each in numeric)
        notes = [rf"\par\footnotesize {_latex(note)}" for note in self.notes]
        return "\n".join(
            (
                r"\begin{table}",
                rf"\caption{{{_latex(self.title)}}}",
                r"\centering",
                rf"\begin{{tabular}}{{{kinds}}}",
                r"\hline",
                head,
                r"\hline",
                *body,
                r"\hline",
                r"\end{tabular}",
                *notes,
                r"\end{table}",
                "",
            )
        )

    def csv(self) -> str:
        """Columns and rows only, numbers unrounded, an interval and the paper in columns of their own."""
        records = self.records()
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(self._keys())
        writer.writerows(record.values() for record in records)
        return file.getvalue()

    def records(self) -> list[dict[str, Any]]:
        """Each row by column, numbers unrounded; every row has the same keys."""
        keys = self._keys()
        return [
            dict(zip(keys, (value for cells in row for value in cells), strict=True))
            for row in (
                [_raw(cell, self._extras(place)) for place, cell in enumerate(row)]
                for row in self.rows
            )
        ]

    def _keys(self) -> list[str]:
        return [
            f"{column.name} {extra}" if extra else column.name
            for place, column in enumerate(self.columns)
            for extra in ("", *self._extras(place))
        ]

    def _extras(self, place: int) -> tuple[str, ...]:
        """What the values of a column have besides our number."""
        values = [row[place] for row in self.rows]
        return tuple(
            extra
            for extra in ("low", "high", PAPER)
            if any(isinstance(v, Value) and getattr(v, extra) is not None for v in values)
        )

    def _shown(self) -> Iterator[_Shown]:
        several = sum(PAPER in self._extras(place) for place in range(len(self.columns))) > 1
        for place, column in enumerate(self.columns):
            cells = [row[place] for row in self.rows]
            numeric = bool(cells) and not any(isinstance(cell, str) for cell in cells)
            texts = tuple(_rounded(cell, column) for cell in cells)
            yield _Shown(column.name, texts, numeric)
            if PAPER in self._extras(place):
                theirs = [cell.paper if isinstance(cell, Value) else None for cell in cells]
                texts = tuple(
                    "" if each is None else _number(each, column.digits) for each in theirs
                )
                name = f"{PAPER}: {column.name}" if several else PAPER
                yield _Shown(name, texts, numeric=True, paper=True)


def markdown_grid(
    head: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[bool] = ()
) -> str:
    """Cells that are Markdown already, as a table; numbers are set to the right."""
    rule = [
        "---:" if place < len(numeric) and numeric[place] else "---" for place in range(len(head))
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *rows))


def _raw(cell: Cell, extras: Sequence[str]) -> list[Any]:
    if isinstance(cell, Value):
        return [cell.ours, *(getattr(cell, extra) for extra in extras)]
    return [cell, *(None for _ in extras)]


def _rounded(cell: Cell, column: Column) -> str:
    if isinstance(cell, str):
        return cell
    value, digits = cell if isinstance(cell, Value) else Value(cell), column.digits
    if value.ours is None:
        return MISSING
    if column.chance and value.ours < 0.5 * 10.0**-digits:
        return f"< {10.0**-digits:.{digits}f}"
    number = _number(value.ours, digits)
    if value.low is None or value.high is None:
        return number
    return f"{number} [{_number(value.low, digits)}, {_number(value.high, digits)}]"


def _number(value: float, digits: int) -> str:
    return str(value) if isinstance(value, int) else f"{value:.{digits}f}"


def _html_cell(column: _Shown, row: int) -> str:
    """An interval stands below its number, so that a table of many fits a screen."""
    number, bracket, interval = column.cells[row].partition(" [")
    if not (column.numeric and bracket):
        return embed.text(column.cells[row])
    return f'{embed.text(number)} <span class="interval">[{embed.text(interval)}</span>'


def _html_class(column: _Shown) -> str:
    names = [name for name in ("numeric", "paper") if getattr(column, name)]
    return f' class="{" ".join(names)}"' if names else ""


def _markdown(text: str) -> str:
    one_line = " ".join(text.split())
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", one_line).replace("<", "&lt;").replace(">", "&gt;")


_LATEX = str.maketrans(
    {
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": "$<$",
        ">": "$>$",
        "∞": r"$\infty$",
        "≤": r"$\le$",
        "≥": r"$\ge$",
        "±": r"$\pm$",
        "\N{MULTIPLICATION SIGN}": r"$\times$",
        "\N{MINUS SIGN}": "$-$",
        "·": r"$\cdot$",
    }
)


def _latex(text: str) -> str:
    return " ".join(text.split()).translate(_LATEX)


Figures = Sequence[float | None] | Mapping[str, float | None]


@dataclass(frozen=True)
class Field:
    """A column: the number `key` of each row with its interval, and the paper's beside it."""

    key: str
    head: str = ""
    """The key where nothing is given."""
    digits: int = 2
    paper: int | str | None = None
    """Which of the paper's figures for a row."""
    chance: bool = False
    of: Callable[[Mapping[str, Any]], Cell] | None = None
    """What stands there, where it is no number of the row."""

    def cell(self, row: Mapping[str, Any], theirs: Figures) -> Cell:
        if self.of is not None:
            return self.of(row)
        ours = row.get(self.key)
        if isinstance(ours, str):
            return ours
        low, high = row.get(f"{self.key}_interval") or (None, None)
        return Value(ours, low, high, self._published(theirs))

    def _published(self, theirs: Figures) -> float | None:
        if isinstance(theirs, Mapping):
            return theirs.get(str(self.paper))
        return theirs[self.paper] if isinstance(self.paper, int) and theirs else None


def p_value(key: str, head: str = "p", digits: int = 4) -> Field:
    """A column of probabilities."""
    return Field(key, head, digits, chance=True)


def percent(key: str, head: str, digits: int = 1) -> Field:
    """A column of fractions, in percent."""
    return Field(key, f"{head} (%)", digits, of=lambda row: 100 * row[key])


def table_of(
    title: str,
    fields: Sequence[Field],
    rows: Sequence[Mapping[str, Any]],
    notes: Sequence[str] = (),
    paper: Callable[[Mapping[str, Any]], Figures] = lambda row: (),
) -> Table:
    """One line per row; `paper` gives the published figures that belong beside it."""
    columns = [Column(each.head or each.key, each.digits, each.chance) for each in fields]
    cells = [[each.cell(row, paper(row)) for each in fields] for row in rows]
    return Table(title, columns, cells, notes)


def series(
    label: str, x: Sequence[float] | Sequence[str], rows: Sequence[Mapping[str, Any]], name: str
) -> Series:
    """A line of a figure: one number of each row, with its interval where every row has one."""
    bounds = [row.get(f"{name}_interval") for row in rows]
    low, high = ([each[end] for each in bounds if each] for end in (0, 1))
    known = all(bounds)
    return Series(
        label, x, [row[name] for row in rows], low if known else (), high if known else ()
    )
