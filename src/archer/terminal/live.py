"""A response being denoised, drawn in a terminal from the events of a trace, with or without colour."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from statistics import fmean
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.text import Text

from archer.errors import printable
from archer.terminal.glyphs import (
    BRACKETS,
    END_SIGN,
    MASKED_SIGN,
    QUIET,
    TAKEN_SIGN,
    Line,
    Look,
    Mark,
    fill,
    folded,
)

if TYPE_CHECKING:
    from archer.results.completion import Completion
    from archer.results.trace import Update


CALL_SIGNS = {"full": "R", "cached": ".", "reused": "="}
CALL_STYLES = {"full": "bold yellow", "cached": "", "reused": QUIET}
LONGEST_BAR = 10
GAP = "  "


@dataclass
class RowView:
    """What is known of one row."""

    tokens: list[int | None]
    """None where nothing is placed."""
    stop: int | None = None
    """How many of them there are now; None for all."""
    fresh: set[int] = field(default_factory=set)
    taken: set[int] = field(default_factory=set)
    calls: str = ""
    latest: Update | None = None
    error: str | None = None
    top: int = 0
    """First line shown when the response is higher than its place."""

    def follow(self, update: Update) -> None:
        update.apply(self.tokens, None)
        self.taken = set(update.remasked)
        self.fresh = {each.at for each in (*update.accepted, *update.replaced)} - self.taken
        self.calls += CALL_SIGNS[update.call]
        self.stop = update.stop
        self.latest = update

    @property
    def existing(self) -> list[int | None]:
        """The tokens of the columns that there are."""
        return self.tokens[: self.stop]

    def mark(self, at: int) -> Mark:
        if at in self.taken:
            return Mark.TAKEN
        if self.tokens[at] is None:
            return Mark.MASKED
        return Mark.FRESH if at in self.fresh else Mark.SETTLED


def status_parts(
    row: RowView, label: str | None, radius: float | None, nats: float | None = None
) -> list[Text]:
    """The latest update in a few words."""
    parts = [] if label is None else [Text(label, "bold")]
    update = row.latest
    if row.error is not None:
        return [*parts, Text(f"{TAKEN_SIGN} {row.error}", "bold red")]
    if update is None:
        return [*parts, Text("first pass", QUIET)]
    digits = len(str(len(row.tokens)))
    placed = sum(token is not None for token in row.existing)
    parts.append(Text(f"update {update.update:>{digits}}"))
    parts.append(Text(f"{update.call:<6}", CALL_STYLES[update.call]))
    if update.drift is None or not nats:
        parts.append(_distance(update.distance, radius, digits))
    else:
        cells = bar(update.drift / nats, LONGEST_BAR)
        parts.append(Text(f"unexpected {update.drift:.2f}/{nats:g} nats {cells}"))
    parts.append(Text(f"{placed:>{digits}}/{len(row.existing)} placed"))
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
    return Text(f"distance {distance:>{digits}}/{radius:g} {cells}")


def history_line(calls: str, width: int) -> Text:
    """The calls so far, the latest last."""
    shown = calls if len(calls) <= width else f"…{calls[len(calls) - width + 1 :]}"
    line = unwrapped()
    for sign in shown:
        line.append(sign, CALL_STYLES["full"] if sign == CALL_SIGNS["full"] else QUIET)
    return line


def legend_parts(ends: bool, bracketed: bool) -> list[Text]:
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


def unwrapped(text: str = "", style: str = "") -> Text:
    """Something that takes one line, however narrow the terminal."""
    return Text(text, style, no_wrap=True, overflow="ellipsis", end="")


def flow(parts: Sequence[Text], width: int) -> list[Text]:
    """Parts side by side, on as many lines as they need."""
    lines = [unwrapped()]
    for part in parts:
        if lines[-1].cell_len and lines[-1].cell_len + len(GAP) + part.cell_len > width:
            lines.append(unwrapped())
        if lines[-1].cell_len:
            lines[-1].append(GAP)
        lines[-1].append_text(part)
    return lines


def bar(share: float, width: int) -> str:
    """A share of 1 as filled and empty cells."""
    filled = round(min(max(share, 0.0), 1.0) * width)
    return "▓" * filled + "░" * (width - filled)


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
        responses: Sequence[Sequence[int | None]],
        stop: int | None = None,
        look: Look,
        title: str,
        radius: float | None = None,
        nats: float | None = None,
    ) -> None:
        self.rows = [RowView(list(response), stop) for response in responses]
        self._look = look
        self._title = printable(title)
        self._limits = radius, nats

    def follow(self, update: Update) -> None:
        self.rows[update.row].follow(update)

    def fail(self, row: int, reason: str) -> None:
        self.rows[row].error = reason

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = self.frame(options.max_width, console.height - 1, bracketed(console))
        yield from (line + Text("\n") for line in lines)

    def legend(self, width: int, bracketed: bool) -> list[Text]:
        """What the signs mean."""
        return flow(legend_parts(bool(self._look.ends), bracketed), width)

    def frame(
        self, width: int, height: int, bracketed: bool, *, legend: bool = True
    ) -> Iterator[Text]:
        """What is seen now, line by line."""
        head = [unwrapped(self._title, "bold")]
        least = FEWEST_LINES + AROUND_RESPONSE
        key = self.legend(width, bracketed) if legend else []
        shown = max(1, min(len(self.rows), (height - 1) // least))
        hidden = len(self.rows) - shown
        if hidden:
            head.append(unwrapped(f"{hidden} of {len(self.rows)} rows are not shown", QUIET))
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
        marked = folded(
            ((token, row.mark(at)) for at, token in enumerate(row.existing)), self._look
        )
        spelled = (
            (self._look.spelled(token, mark, bracketed, times), mark)
            for token, mark, times in marked
        )
        lines = fill(spelled, width)
        status = flow(status_parts(row, label, *self._limits), width)
        around = [unwrapped(), *status, history_line(row.calls, width), unwrapped()]
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
        key = self.left.legend(options.max_width, bracketed(console))
        if height >= 2 * (FEWEST_LINES + AROUND_RESPONSE):
            yield from (line + Text("\n") for line in (*key, unwrapped()))
            height -= len(key) + 1
        frames = [
            view.frame(width, height, bracketed(console), legend=False)
            for view in (self.left, self.right)
        ]
        for pair in zip_longest(*frames):
            left, right = (unwrapped() if line is None else line for line in pair)
            left.truncate(width, pad=True)
            yield Text.assemble(left, GAP, right, end="") + Text("\n")


def bracketed(console: Console) -> bool:
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
        yield unwrapped(f"… {row.top} lines above" if row.top else "", QUIET)
    yield from (line.text for line in lines[row.top : bottom])
    if height > inner + 1:
        below = len(lines) - bottom
        yield unwrapped(f"… {below} lines below" if below else "", QUIET)
