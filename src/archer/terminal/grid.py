"""A Sudoku grid being filled, drawn in place in a terminal.

It consumes the update events of a trace, as the view of a text does.  Every distinction also exists without
colour: a given digit has no mark, a fresh one stands in brackets where styles cannot be relied on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from archer.errors import printable
from archer.pocket.grids import BOXES, EMPTY, lines, size_of
from archer.terminal.glyphs import BRACKETS, MASKED_SIGN, TAKEN_SIGN, Mark
from archer.terminal.live import (
    RowView,
    bracketed,
    flow,
    legend_parts,
    status_parts,
    unwrapped,
)

if TYPE_CHECKING:
    from archer.results.trace import Update

GIVEN = "bold"
DIGITS = tuple("123456789")
NO_DIGIT = "?"
"""For whatever else a model may write into a cell."""


class GridView:
    """One puzzle, as something that rich can draw."""

    def __init__(
        self,
        givens: str,
        response: Sequence[int | None],
        spell: Callable[[int], str],
        *,
        title: str = "",
        nats: float | None = None,
    ) -> None:
        """`response` is what is given from the first gap on, a token for every character of the grid."""
        self.givens, self.size = givens, size_of(givens)
        self.row = RowView(list(response))
        self._spell, self._title, self._nats = spell, printable(title), nats
        self._first = lines(givens).index(EMPTY)

    def follow(self, update: Update) -> None:
        self.row.follow(update)

    def at(self, place: int) -> int:
        """The column of the response that a cell is; below 0 before the first gap."""
        return place + place // self.size - self._first

    def cell(self, place: int) -> tuple[str, Mark | None]:
        """What stands in a cell; no mark where that is given."""
        if self.givens[place] != EMPTY:
            return self.givens[place], None
        token, mark = self.row.tokens[self.at(place)], self.row.mark(self.at(place))
        if mark is Mark.TAKEN:
            return TAKEN_SIGN, mark
        if token is None:
            return MASKED_SIGN, mark
        text = self._spell(token)
        return text if text in DIGITS else NO_DIGIT, mark

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        plain = bracketed(console)
        yield unwrapped(self._title, "bold") + Text("\n")
        parts = [Text("given", GIVEN), *legend_parts(ends=False, bracketed=plain)]
        for part in flow(parts, options.max_width):
            yield part + Text("\n")
        for part in flow(status_parts(self.row, None, None, self._nats), options.max_width):
            yield part + Text("\n")
        for line in self.drawn(plain):
            yield line + Text("\n")

    def drawn(self, plain: bool) -> Iterator[Text]:
        """The grid with its boxes; `plain` marks fresh digits without style."""
        high, wide = BOXES[self.size]
        run = "─" * (3 * wide)
        for row in range(self.size):
            if row % high == 0:
                left, middle, right = "├┼┤" if row else "┌┬┐"
                yield unwrapped(left + middle.join([run] * (self.size // wide)) + right)
            line = unwrapped()
            for column in range(self.size):
                line.append("│" * (column % wide == 0))
                text, mark = self.cell(row * self.size + column)
                before, behind = BRACKETS if plain and mark is Mark.FRESH else "  "
                line.append(f"{before}{text}{behind}", GIVEN if mark is None else mark.value)
            yield line + Text("│", end="")
        yield unwrapped("└" + "┴".join([run] * (self.size // wide)) + "┘")
