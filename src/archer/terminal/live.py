"""A response being denoised, drawn in place in a terminal.

It consumes the update events of a trace, so it can follow a running generation and a recorded one
alike, and it never looks at a model.  Every distinction also exists without colour.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.text import Text

from archer.errors import printable
from archer.terminal.glyphs import QUIET, Line, Look, fill, folded
from archer.terminal.progress import (
    GAP,
    RowView,
    flow,
    history_line,
    legend_parts,
    one_line,
    status_parts,
)

if TYPE_CHECKING:
    from archer.results.completion import Completion
    from archer.results.trace import Update

FRAME_SECONDS = 1 / 30
FEWEST_LINES = 3
"""The fewest lines a response gets, if need be at the cost of what stands around it."""
AROUND_RESPONSE = 5
"""Lines that usually stand around it: status, history and blank ones."""


class LiveView:
    """All rows of one generation, as something that rich can draw."""

    def __init__(
        self,
        *,
        rows: int,
        length: int,
        look: Look,
        title: str,
        radius: float | None = None,
        nats: float | None = None,
    ) -> None:
        self.rows = [RowView([None] * length) for _ in range(rows)]
        self._look = look
        self._title = printable(title)
        self._limits = radius, nats

    def follow(self, update: Update) -> None:
        self.rows[update.row].follow(update)

    def fail(self, row: int, reason: str) -> None:
        self.rows[row].error = reason

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = self.frame(options.max_width, console.height - 1, _bracketed(console))
        yield from (line + Text("\n") for line in lines)

    def legend(self, width: int, bracketed: bool) -> list[Text]:
        """What the signs mean."""
        return flow(legend_parts(bool(self._look.ends), bracketed), width)

    def frame(
        self, width: int, height: int, bracketed: bool, *, legend: bool = True
    ) -> Iterator[Text]:
        """What is seen now, line by line."""
        head = [one_line(self._title, "bold")]
        least = FEWEST_LINES + AROUND_RESPONSE
        key = self.legend(width, bracketed) if legend else []
        shown = max(1, min(len(self.rows), (height - 1) // least))
        hidden = len(self.rows) - shown
        if hidden:
            head.append(one_line(f"{hidden} of {len(self.rows)} rows are not shown", QUIET))
        share = (height - len(head)) // shown
        if share >= least + len(key):
            head += key
            share = (height - len(head)) // shown
        yield from head if height >= least else ()
        for number, row in enumerate(self.rows[:shown], start=1):
            label = f"row {number}" if len(self.rows) > 1 else None
            yield from self._panel(row, label, width, share, bracketed)

    def _panel(
        self, row: RowView, label: str | None, width: int, height: int, bracketed: bool
    ) -> Iterator[Text]:
        """Status, history and response of one row in `height` lines."""
        marked = folded(((token, row.mark(at)) for at, token in enumerate(row.tokens)), self._look)
        spelled = (
            (self._look.spelled(token, mark, bracketed, times), mark)
            for token, mark, times in marked
        )
        lines = fill(spelled, width)
        status = flow(status_parts(row, label, *self._limits), width)
        around = [one_line(), *status, history_line(row.calls, width), one_line()]
        if height - len(around) < FEWEST_LINES:
            around = status[:1]
        yield from around
        yield from _window(row, lines, max(1, height - len(around)))


@dataclass(frozen=True)
class Beside:
    """Two views in columns under one legend, as something that rich can draw."""

    left: LiveView
    right: LiveView

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = (options.max_width - len(GAP)) // 2, console.height - 1
        key = self.left.legend(options.max_width, _bracketed(console))
        if height >= 2 * (FEWEST_LINES + AROUND_RESPONSE):
            yield from (line + Text("\n") for line in (*key, one_line()))
            height -= len(key) + 1
        frames = [
            view.frame(width, height, _bracketed(console), legend=False)
            for view in (self.left, self.right)
        ]
        for pair in zip_longest(*frames):
            left, right = (one_line() if line is None else line for line in pair)
            left.truncate(width, pad=True)
            yield Text.assemble(left, GAP, right, end="") + Text("\n")


def _bracketed(console: Console) -> bool:
    """Whether fresh tokens need brackets, because styles cannot be relied on."""
    return console.no_color or console.color_system is None


class Screen:
    """Draws a view in place, and leaves the terminal as it was, whatever happens in between."""

    def __init__(self, view: RenderableType, console: Console) -> None:
        self._console = console
        self._live = Live(view, console=console, auto_refresh=False, transient=True)
        self._size = console.size
        self._drawn = -math.inf

    def draw(self, *, now: bool = False) -> None:
        """Redraw, unless that was done a moment ago."""
        if not now and time.monotonic() - self._drawn < FRAME_SECONDS:
            return
        if self._console.size != self._size:
            self._console.clear()
            self._size = self._console.size
        self._live.refresh()
        self._drawn = time.monotonic()

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.draw(now=True)
        finally:
            self._live.stop()


def summary(done: Completion) -> str:
    """One line about a finished response."""
    if done.error is not None:
        return f"stopped after {done.updates} updates: {done.error}"
    reused = f", {done.reused_passes} reused" if done.reused_passes else ""
    return (
        f"{done.updates} updates: {done.full_passes} full, {done.cached_passes} cached{reused}"
        f" · refreshed {done.refresh_fraction:.0%} · {_revised(done)}"
        f" · {done.tokens_per_forward:.2f} tokens/forward · {done.seconds.total:.2f} s"
    )


def _revised(done: Completion) -> str:
    """Words are told from end marks, of which a response has many and which mean little."""
    ends = done.revised_positions - done.revised_text
    return f"{done.revised_text} text positions revised" + (f", {ends} end marks" if ends else "")


def _window(row: RowView, lines: Sequence[Line], height: int) -> Iterator[Text]:
    """The part of the response that fits; it moves only when all that is fresh lies outside."""
    if len(lines) <= height:
        row.top = 0
        yield from (line.text for line in lines)
        return
    inner = max(1, height - 2)
    row.top = min(row.top, len(lines) - inner)
    fresh = [number for number, line in enumerate(lines) if line.fresh]
    if fresh and not any(row.top <= number < row.top + inner for number in fresh):
        row.top = min(max(0, fresh[-1] - inner // 2), len(lines) - inner)
    bottom = row.top + inner
    if height > inner:
        yield one_line(f"… {row.top} lines above" if row.top else "", QUIET)
    yield from (line.text for line in lines[row.top : bottom])
    if height > inner + 1:
        below = len(lines) - bottom
        yield one_line(f"… {below} lines below" if below else "", QUIET)
