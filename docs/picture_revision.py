"""Draw `docs/images/revision.svg`: the bundled model takes a token back. `python docs/picture_revision.py`.

The default method solves the problem of `archer demo`; a few of its updates are the frames of an animation.
The line break at the start is not drawn, and the end marks behind the text are one cell.  Readers who prefer
no motion see the last frame.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import archer
from archer.cli.demo import EXAMPLE, last_correction
from archer.model import Model
from archer.results.trace import Update, updates

TARGET = Path(__file__).parent / "images" / "revision.svg"
METHOD = "archer-doubt"
LETTER, LINE, MARGIN = 8.4, 24, 16
"""Width of a letter and height of a line of the text, and the margin, in pixels."""
COLUMNS = 44
"""Letters in a line: narrow enough for a phone."""
SECONDS = (1.4, 1.8, 1.4, 2.0, 2.4, 2.2, 3.2)
"""How long each frame stays."""
STYLE = """
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace }
.paper { fill: #ffffff; stroke: #d0d7de } .ink { fill: #1f2328 } .dim { fill: #656d76 }
.mask { fill: #d8dee4 } .fresh { fill: #0969da } .onfresh { fill: #ffffff; font-weight: 600 }
.back { fill: none; stroke: #bc4c00; stroke-width: 1.5; stroke-dasharray: 4 2 } .onback { fill: #bc4c00 }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117; stroke: #30363d } .ink { fill: #e6edf3 } .dim { fill: #8d96a0 }
.mask { fill: #2d333b } .fresh { fill: #388bfd } .onfresh { fill: #0d1117 }
.back { stroke: #f0883e } .onback { fill: #f0883e } }
"""


@dataclass(frozen=True)
class Frame:
    """What the response looks like after an update."""

    caption: str
    tokens: dict[int, str]
    """The texts that are in place, by position."""
    fresh: frozenset[int] = frozenset()
    back: dict[int, str] | None = None
    """What has just been taken back, by position."""


def main() -> None:
    TARGET.write_text(drawing(), encoding="utf-8")


def drawing() -> str:
    """The picture as SVG."""
    model = archer.load("pocket", device="cpu", dtype="float32")
    stream = model.stream(EXAMPLE, METHOD)
    history = [update for step in stream for update in updates(step.record)]
    (done,) = stream.finish()
    return _svg(_frames(model, history), len(done.tokens))


def _frames(model: Model, history: Sequence[Update]) -> list[Frame]:
    """The start, the correction with a few updates around it, and the end."""
    found = last_correction(history, model.end_ids)
    if found is None:
        raise SystemExit("No token of this answer becomes another one: choose another problem.")
    before, after = (_text(model, token).strip() for token in (found.before, found.after))
    taken_back = max(
        update.update for update in history[: found.update - 1] if found.at in update.remasked
    )
    captions = {
        len(history): "the program is complete",
        found.written: f"{before} is written",
        (found.written + taken_back) // 2: "end marks fill the rest",
        taken_back - 1: f"it now reads {_line_of(model, history[: taken_back - 1], found.at)}",
        taken_back: f"{before} is taken back",
        found.update: f"{after} is written in its place",
    }
    frames = [Frame("at the start every position is a mask", {})]
    tokens: dict[int, str] = {}
    for update in history:
        placed = _placed(model, update)
        tokens |= placed
        back = {at: tokens.pop(at) for at in update.remasked}
        if update.update in captions:
            caption = f"update {update.update} of {len(history)}: {captions[update.update]}"
            frames.append(Frame(caption, dict(tokens), frozenset(placed) - set(back), back))
    return frames


def _line_of(model: Model, history: Sequence[Update], at: int) -> str:
    """The text up to a position after these updates."""
    tokens: dict[int, str] = {}
    for update in history:
        tokens |= _placed(model, update)
        for other in update.remasked:
            tokens.pop(other)
    return "".join(tokens.get(place, " ...") for place in range(1, at + 1))


def _placed(model: Model, update: Update) -> dict[int, str]:
    changes = (*update.accepted, *update.replaced)
    return {change.at: _text(model, change.token) for change in changes}


def _text(model: Model, token: int) -> str:
    assert model.text is not None
    return "∎" if token in model.end_ids else model.text.piece(token)


def _svg(frames: Sequence[Frame], length: int) -> str:
    last = frames[-1].tokens
    shown = [at for at in range(1, length) if last[at] != "∎"]
    widths = {
        at: LETTER * max(len(frame.tokens.get(at, "")) for frame in frames) for at in range(length)
    }
    request = textwrap.wrap(EXAMPLE.splitlines()[0], COLUMNS)
    first = len(request) + 2
    places, (x, line) = {}, (MARGIN + 4 * LETTER, first)
    for at in shown:
        if x + widths[at] > MARGIN + COLUMNS * LETTER:
            x, line = MARGIN + 8 * LETTER, line + 1
        places[at] = x, line
        x += widths[at] + 2
    wide, high = 2 * MARGIN + LETTER * (COLUMNS + 7), LINE * (line + 1) + MARGIN * 2
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" '
        f'width="{wide:.0f}" role="img" '
        f'aria-label="{escape(frames[-3].caption)}; {escape(frames[-2].caption)}">',
        f"<style>{STYLE}{keyframes(SECONDS)}</style>",
        f'<rect class="paper" x="0.5" y="0.5" width="{wide - 1:.0f}" height="{high - 1:.0f}" rx="6"/>',
        *(_line(MARGIN, number, text, "dim") for number, text in enumerate(request, start=1)),
        _line(MARGIN, first - 1, EXAMPLE.splitlines()[-1], "ink"),
    ]
    for number, frame in enumerate(frames):
        cells = "".join(_cell(frame, at, *places[at], widths[at]) for at in shown)
        ends = sum(frame.tokens.get(at) == "∎" for at in range(length))
        cells += _line(x + 4, line, f"∎ x {ends}", "dim") if ends else ""
        cells += _line(MARGIN, line + 1.4, frame.caption, "ink")
        body.append(f'<g class="frame f{number}">{cells}</g>')
    return "\n".join((*body, "</svg>")) + "\n"


def _cell(frame: Frame, at: int, x: float, line: int, wide: float) -> str:
    back = frame.back or {}
    top = LINE * line - 16
    box = f'x="{x:.1f}" y="{top}" width="{wide:.1f}" height="21" rx="3"'
    if at in back:
        return f'<rect class="back" {box}/>' + _line(x, line, back[at], "onback")
    if at in frame.fresh:
        return f'<rect class="fresh" {box}/>' + _line(x, line, frame.tokens[at], "onfresh")
    if at in frame.tokens:
        return _line(x, line, frame.tokens[at], "ink")
    return f'<rect class="mask" x="{x + 1:.1f}" y="{top + 3}" width="{wide - 2:.1f}" height="15" rx="3"/>'


def _line(x: float, line: float, text: str, kind: str) -> str:
    """The text on a line; leading spaces become a shift, because SVG drops them."""
    x += LETTER * (len(text) - len(text.lstrip()))
    return f'<text x="{x:.1f}" y="{LINE * line:.0f}" class="{kind}">{escape(text.strip())}</text>'


def keyframes(durations: Sequence[float]) -> str:
    """One animation per frame: visible in its own part of the cycle, as many seconds as it is given."""
    rules, start, total = [".frame { opacity: 0 }"], 0.0, sum(durations)
    for number, seconds in enumerate(durations):
        begin, end = (100 * each / total for each in (start, start + seconds))
        before = f"0%, {begin:.2f}% {{ opacity: 0 }} " if number else ""
        after = f"{end:.2f}%, 100% {{ opacity: 0 }}" if number < len(durations) - 1 else ""
        visible = f"{begin + 0.01:.2f}%, {end - 0.01:.2f}% {{ opacity: 1 }}"
        rules.append(f"@keyframes k{number} {{ {before}{visible} {after} }}")
        rules.append(f".f{number} {{ animation: k{number} {total:.1f}s linear infinite }}")
        start += seconds
    still = f".frame {{ animation: none }} .f{len(durations) - 1} {{ opacity: 1 }}"
    return "\n".join((*rules, f"@media (prefers-reduced-motion: reduce) {{ {still} }}"))


if __name__ == "__main__":
    main()
