"""Tables and lines of figures from rows of plain data: each column names the number that stands in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archer.pages.figures import Series
from archer.pages.tables import Cell, Column, Table, Value

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
