"""A response being denoised, drawn in place in a terminal.

It consumes the update events of a trace, so it can follow a running generation and a recorded one
alike, and it never looks at a model.  Every distinction also exists without colour.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from archer.glyphs import (
    BRACKETS,
    END_SIGN,
    MASKED_SIGN,
    QUIET,
    TAKEN_SIGN,
    Line,
    Look,
    Mark,
    fill,
)

if TYPE_CHECKING:
    from archer.completion import Completion
    from archer.trace import Update

CALL_SIGNS = {"full": "R", "cached": ".", "reused": "="}
CALL_STYLES = {"full": "bold yellow", "cached": "", "reused": QUIET}
FRAME_SECONDS = 1 / 30
LONGEST_BAR = 10
FEWEST_LINES = 3
"""A response gets at least so many lines, if need be at the cost of what stands around it."""
GAP = "  "


@dataclass
class RowView:
    """What is known of one row."""

    tokens: list[int | None]
    """None where nothing is placed."""
    fresh: set[int] = field(default_factory=set)
    taken: set[int] = field(default_factory=set)
    calls: str = ""
    latest: Update | None = None
    error: str | None = None
    top: int = 0
    """First line shown when the response is higher than its place."""

    def follow(self, update: Update) -> None:
        placed = (*update.accepted, *update.replaced)
        for change in placed:
            self.tokens[change.at] = change.token
        for at in update.remasked:
            self.tokens[at] = None
        self.taken = set(update.remasked)
        self.fresh = {change.at for change in placed} - self.taken
        self.calls += CALL_SIGNS[update.call]
        self.latest = update

    def mark(self, at: int) -> Mark:
        if at in self.taken:
            return Mark.TAKEN
        if self.tokens[at] is None:
            return Mark.MASKED
        return Mark.FRESH if at in self.fresh else Mark.SETTLED


class View:
    """All rows of one generation, as something that rich can draw."""

    def __init__(
        self, *, rows: int, length: int, look: Look, title: str, radius: float | None = None
    ) -> None:
        self.rows = [RowView([None] * length) for _ in range(rows)]
        self._look = look
        self._title = title
        self._radius = radius

    def follow(self, update: Update) -> None:
        self.rows[update.row].follow(update)

    def fail(self, row: int, reason: str) -> None:
        self.rows[row].error = reason

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        bracketed = console.no_color or console.color_system is None
        lines = self._frame(options.max_width, console.height - 1, bracketed)
        yield from (line + Text("\n") for line in lines)

    def _frame(self, width: int, height: int, bracketed: bool) -> Iterator[Text]:
        head = [Text(self._title, "bold", no_wrap=True, overflow="ellipsis", end="")]
        foot = _flow(_legend(bool(self._look.ends), bracketed), width)
        shown = max(1, min(len(self.rows), (height - 1) // (FEWEST_LINES + 5)))
        hidden = len(self.rows) - shown
        if hidden:
            head.append(Text(f"{hidden} of {len(self.rows)} rows are not shown", QUIET, end=""))
        share = (height - len(head)) // shown
        if share >= FEWEST_LINES + 5 + len(foot):
            head += foot
            share = (height - len(head)) // shown
        yield from head if height > FEWEST_LINES + 4 else ()
        for number, row in enumerate(self.rows[:shown], start=1):
            label = f"row {number}" if len(self.rows) > 1 else None
            yield from self._panel(row, label, width, share, bracketed)

    def _panel(
        self, row: RowView, label: str | None, width: int, height: int, bracketed: bool
    ) -> Iterator[Text]:
        """Status, history and response of one row in `height` lines."""
        spelled = (
            (self._look.spelled(token, mark, bracketed), mark)
            for token, mark in ((token, row.mark(at)) for at, token in enumerate(row.tokens))
        )
        lines = fill(spelled, width)
        status = _flow(_status(row, label, self._radius), width)
        around = [Text(end=""), *status, _history(row.calls, width), Text(end="")]
        if height - len(around) < FEWEST_LINES:
            around = status[:1]
        yield from around
        yield from _window(row, lines, max(1, height - len(around)))


class Screen:
    """Draws a view in place, and leaves the terminal as it was, whatever happens in between."""

    def __init__(self, view: View, console: Console) -> None:
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
        f" · refreshed {done.refresh_fraction:.0%} · {done.revised_positions} positions revised"
        f" · {done.tokens_per_forward:.2f} tokens/forward · {done.seconds.total:.2f} s"
    )


def bar(share: float, width: int) -> str:
    """A share of 1 as filled and empty cells."""
    filled = round(min(max(share, 0.0), 1.0) * width)
    return "▓" * filled + "░" * (width - filled)


def _status(row: RowView, label: str | None, radius: float | None) -> list[Text]:
    """The parts of the status line.  Numbers keep their width, so that nothing trembles."""
    parts = [] if label is None else [Text(label, "bold")]
    update = row.latest
    if row.error is not None:
        return [*parts, Text(f"{TAKEN_SIGN} {row.error}", "bold red")]
    if update is None:
        return [*parts, Text("first pass", QUIET)]
    digits = len(str(len(row.tokens)))
    placed = sum(token is not None for token in row.tokens)
    parts.append(Text(f"update {update.update:>{digits}}"))
    parts.append(Text(f"{update.call:<6}", CALL_STYLES[update.call]))
    parts.append(_distance(update.distance, radius, digits))
    parts.append(Text(f"{placed:>{digits}}/{len(row.tokens)} placed"))
    parts.append(_changes(update, digits))
    sure = [change.confidence for change in update.accepted if change.confidence is not None]
    if sure:
        parts.append(Text(f"confidence {fmean(sure):.2f} {bar(fmean(sure), LONGEST_BAR)}"))
    return parts


def _changes(update: Update, digits: int) -> Text:
    """How many tokens were placed, taken back and, where that happens, replaced."""
    counts = f"+{len(update.accepted):<{digits}} -{len(update.remasked):<{digits}}"
    return Text(counts + (f" ~{len(update.replaced):<{digits}}" if update.replaced else ""))


def _distance(distance: int, radius: float | None, digits: int) -> Text:
    """How far the response is from the state whose prompt is cached."""
    if radius is None:
        return Text(f"distance {distance:>{digits}}")
    if math.isinf(radius):
        return Text(f"distance {distance:>{digits}}/∞")
    cells = bar(distance / radius, min(int(radius), LONGEST_BAR))
    return Text(f"distance {distance:>{len(f'{radius:g}')}}/{radius:g} {cells}")


def _history(calls: str, width: int) -> Text:
    """The calls so far, the latest last."""
    shown = calls if len(calls) <= width else f"…{calls[len(calls) - width + 1 :]}"
    line = Text(shown, QUIET, no_wrap=True, end="")
    line.highlight_regex(CALL_SIGNS["full"], CALL_STYLES["full"])
    return line


def _legend(ends: bool, bracketed: bool) -> list[Text]:
    fresh = "fresh".join(BRACKETS) if bracketed else "fresh"
    parts = [
        Text(f"{MASKED_SIGN} masked", Mark.MASKED.value),
        Text(fresh, Mark.FRESH.value),
        Text("settled", Mark.SETTLED.value),
        Text(f"{TAKEN_SIGN} taken back", Mark.TAKEN.value),
    ]
    if ends:
        parts.append(Text(f"{END_SIGN} end", QUIET))
    return parts + [
        Text(f"{sign} {call}", CALL_STYLES[call] or QUIET) for call, sign in CALL_SIGNS.items()
    ]


def _flow(parts: Sequence[Text], width: int) -> list[Text]:
    """Parts side by side, on as many lines as they need."""
    lines = [Text(no_wrap=True, overflow="ellipsis", end="")]
    for part in parts:
        if lines[-1].cell_len and lines[-1].cell_len + len(GAP) + part.cell_len > width:
            lines.append(Text(no_wrap=True, overflow="ellipsis", end=""))
        if lines[-1].cell_len:
            lines[-1].append(GAP)
        lines[-1].append_text(part)
    return lines


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
        yield Text(f"… {row.top} lines above" if row.top else "", QUIET, end="")
    yield from (line.text for line in lines[row.top : bottom])
    if height > inner + 1:
        below = len(lines) - bottom
        yield Text(f"… {below} lines below" if below else "", QUIET, end="")
