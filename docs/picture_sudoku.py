"""Draw `docs/images/sudoku.svg`: a wrong digit is taken back. `python docs/picture_sudoku.py`.

The game of `archer demo sudoku`, every update a frame.  Readers who prefer no motion see the last frame.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

from picture_revision import STYLE, keyframes

import archer
from archer.cli.demo_sudoku import METHOD, MODEL, Game, puzzle
from archer.pocket.grids import BOXES
from archer.terminal.glyphs import Mark
from archer.terminal.grid import GridView

TARGET = Path(__file__).parent / "images" / "sudoku.svg"
CELL, MARGIN, TEXT = 40, 16, 46
"""Size of a cell, the margin, and the height of the lines below the grid, in pixels."""
USUAL, CORRECTED, LAST = 0.9, 1.8, 3.5
"""How many seconds a frame stays: any, one in which something is taken back, the last one."""
GRID = """
.digit { font-size: 20px; text-anchor: middle } .given { font-weight: 700 } .caption { font-size: 13px }
.thin { stroke: #d0d7de } .thick { stroke: #656d76; stroke-width: 2 }
@media (prefers-color-scheme: dark) { .thin { stroke: #30363d } .thick { stroke: #8d96a0 } }
"""


def main() -> None:
    TARGET.write_text(drawing(), encoding="utf-8")


def drawing() -> str:
    """The picture as SVG."""
    game = Game(archer.load(MODEL, device="cpu", dtype="float32"), puzzle())
    view = game.view()
    frames, durations = [_frame(view, "at the start only the givens are there")], [CORRECTED]
    for update in game.history:
        standing = dict(enumerate(view.row.tokens)) | {
            each.at: each.token for each in update.accepted
        }
        view.follow(update)
        lost = {at: game.piece(standing[at] or 0) for at in update.remasked}
        caption = f"update {update.update} of {len(game.history)}"
        frames.append(_frame(view, caption + _loss_text(lost), lost))
        durations.append(CORRECTED if lost else USUAL)
    durations[-1] = LAST
    side = CELL * view.size
    wide, high = side + 2 * MARGIN, side + 2 * MARGIN + TEXT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" '
            f'role="img" aria-label="{escape(game.story())}">',
            f"<style>{STYLE}{GRID}{keyframes(durations)}</style>",
            f'<rect class="paper" x="0.5" y="0.5" width="{wide - 1}" height="{high - 1}" rx="6"/>',
            *(f'<g class="frame f{number}">{each}</g>' for number, each in enumerate(frames)),
            _lines(view.size),
            f'<text class="dim caption" x="{MARGIN}" y="{high - 14}">{METHOD} on {MODEL}</text>',
            "</svg>\n",
        ]
    )


def _loss_text(lost: dict[int, str]) -> str:
    return f": {', '.join(lost.values())} taken back" if lost else ""


def _frame(view: GridView, caption: str, lost: dict[int, str] | None = None) -> str:
    """The digits after an update; `lost` are those that it took back, by column of the response."""
    cells = "".join(_cell(view, place, lost or {}) for place in range(view.size**2))
    below = MARGIN + CELL * view.size + 22
    return cells + f'<text class="ink caption" x="{MARGIN}" y="{below}">{escape(caption)}</text>'


def _cell(view: GridView, place: int, lost: dict[int, str]) -> str:
    row, column = divmod(place, view.size)
    x, y = MARGIN + CELL * column, MARGIN + CELL * row
    text, mark = view.cell(place)
    box = f'x="{x + 4}" y="{y + 4}" width="{CELL - 8}" height="{CELL - 8}" rx="4"'
    if mark is Mark.TAKEN:
        return f'<rect class="back" {box}/>' + _digit(x, y, lost[view.at(place)], "onback")
    if mark is Mark.FRESH:
        return f'<rect class="fresh" {box}/>' + _digit(x, y, text, "onfresh")
    if mark is None or mark is Mark.SETTLED:
        return _digit(x, y, text, "ink given" if mark is None else "ink")
    return ""


def _digit(x: int, y: int, text: str, kind: str) -> str:
    return f'<text class="digit {kind}" x="{x + CELL // 2}" y="{y + 27}">{escape(text)}</text>'


def _lines(size: int) -> str:
    """Thin lines between cells, thick ones around boxes."""
    high, wide = BOXES[size]
    end = MARGIN + CELL * size
    drawn = []
    for number in range(size + 1):
        at = MARGIN + CELL * number
        across, down = ("thin" if number % each else "thick" for each in (high, wide))
        drawn.append(f'<line class="{across}" x1="{MARGIN}" y1="{at}" x2="{end}" y2="{at}"/>')
        drawn.append(f'<line class="{down}" x1="{at}" y1="{MARGIN}" x2="{at}" y2="{end}"/>')
    return "".join(sorted(drawn, key=lambda line: "thick" in line))


if __name__ == "__main__":
    main()
