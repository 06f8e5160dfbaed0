"""What is known of a row while it is denoised, and how a line or two say it.

Numbers keep their width from update to update, so that nothing trembles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from rich.text import Text

from archer.terminal.glyphs import BRACKETS, END_SIGN, MASKED_SIGN, QUIET, TAKEN_SIGN, Mark

if TYPE_CHECKING:
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
    placed = sum(token is not None for token in row.tokens)
    parts.append(Text(f"update {update.update:>{digits}}"))
    parts.append(Text(f"{update.call:<6}", CALL_STYLES[update.call]))
    if update.drift is None or not nats:
        parts.append(_distance(update.distance, radius, digits))
    else:
        cells = bar(update.drift / nats, LONGEST_BAR)
        parts.append(Text(f"unexpected {update.drift:.2f}/{nats:g} nats {cells}"))
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
    return Text(f"distance {distance:>{digits}}/{radius:g} {cells}")


def history_line(calls: str, width: int) -> Text:
    """The calls so far, the latest last."""
    shown = calls if len(calls) <= width else f"…{calls[len(calls) - width + 1 :]}"
    line = one_line()
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


def one_line(text: str = "", style: str = "") -> Text:
    """Something that takes one line, however narrow the terminal."""
    return Text(text, style, no_wrap=True, overflow="ellipsis", end="")


def flow(parts: Sequence[Text], width: int) -> list[Text]:
    """Parts side by side, on as many lines as they need."""
    lines = [one_line()]
    for part in parts:
        if lines[-1].cell_len and lines[-1].cell_len + len(GAP) + part.cell_len > width:
            lines.append(one_line())
        if lines[-1].cell_len:
            lines[-1].append(GAP)
        lines[-1].append_text(part)
    return lines


def bar(share: float, width: int) -> str:
    """A share of 1 as filled and empty cells."""
    filled = round(min(max(share, 0.0), 1.0) * width)
    return "▓" * filled + "░" * (width - filled)
