"""Figures on matplotlib (extra `report`), readable without colour, the same bytes every time."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from archer.errors import extra
from archer.pages import embed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

REMEDY = f"Figures need matplotlib. Install it: {extra('report')}."
INK = "#222324"
"""Text and axes; becomes the colour of the text where a figure stands in a page."""
GREY = "#7f8489"
"""Series that are there for comparison; readable on white and on black."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h")
LINES = ("-", "--", "-.", ":")
HATCHES = ("", "///", "\\\\\\", "xx", "--", "||", "++")
NAME_LETTERS, NAME_LINES = 92, 25
"""Small letters that fit across a figure, and lines of them that fit above each other."""
Box = tuple[float, float, float, float]
"""Left, low, right, high, in the figure's own units."""
DARK = "<style>@media (prefers-color-scheme: dark) { svg { filter: invert(1) hue-rotate(180deg) } }</style>"
"""For a figure that is a file on a page of unknown colour: light ink for readers in the dark."""
INCHES = (6.4, 3.8)
PANEL_INCHES = 3.4
"""Width of a panel beside others."""
LEGEND_WIDTH, LEGEND_SIGN = 76, 7
"""Letters that fit beside each other in a usual figure, and how many of them a sign takes."""
DODGE = 0.07
"""Shift between series over the same word, so that their whiskers stand beside each other."""
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "archer",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10.0,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "hatch.linewidth": 0.8,
}


@dataclass(frozen=True)
class Series:
    """Numbers under one name, with intervals or without; `x` may be words, which are set evenly."""

    label: str
    x: Sequence[float] | Sequence[str]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Labels:
    """What is written around a figure."""

    title: str
    x: str
    y: str


@dataclass(frozen=True)
class Figure:
    """A finished figure."""

    title: str
    svg: str
    """Empty where matplotlib is missing, and so is `png`."""
    png: bytes = field(repr=False)

    def html(self, name: str) -> str:
        """For a page in which `name` is not used otherwise; in its ink, on its paper."""
        if not self.svg:
            caption = f"<figcaption>{embed.text(self.title)}</figcaption>"
            return f'<figure class="plot">\n{caption}\n<p>{embed.text(REMEDY)}</p></figure>\n'
        picture = self.svg[self.svg.index("<svg") :].replace(INK, "currentColor").replace(DARK, "")
        picture = re.sub(r"<metadata>.*?</metadata>", "", picture, flags=re.DOTALL)
        used = set(re.findall(r"#([\w-]+)[\")]", picture))
        picture = re.sub(
            r' id="([^"]+)"',
            lambda match: f' id="{name}-{match[1]}"' if match[1] in used else "",
            picture,
        )
        picture = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", picture)
        title = embed.text(self.title)
        picture = picture.replace("<svg", f'<svg role="img" aria-label="{title}"', 1)
        return f'<figure class="plot">\n<figcaption>{title}</figcaption>\n{picture}</figure>\n'


def lines(series: Sequence[Series], labels: Labels) -> Figure:
    """Lines with markers; intervals as whiskers."""

    def draw(axes: Axes) -> None:
        words = _words(series)
        for number, each in enumerate(series):
            shift = (number - (len(series) - 1) / 2) * DODGE
            places = [words.index(str(x)) + shift for x in each.x] if words else each.x
            _plot(axes, each, places, number, linestyle=_pick(LINES, number))
        if words:
            axes.set_xticks(range(len(words)), words)

    return _figure(labels, draw)


def frontier(points: Sequence[Series], labels: Labels, *, highlight: Sequence[str] = ()) -> Figure:
    """Quality over cost, a line through unbeaten points; with `highlight` the others are grey."""

    def draw(axes: Axes) -> None:
        _frontier(axes, points, highlight)
        grey = [each for each in points if highlight and each.label not in highlight]
        if grey:
            _name_points(axes, grey, _points(points))

    return _figure(labels, draw)


def frontiers(
    panels: Mapping[str, Sequence[Series]], labels: Labels, *, highlight: Sequence[str] = ()
) -> Figure:
    """Frontiers beside each other by title, of the same series; distances along the cost are ratios.

    Grey series are told apart by their markers: points that share a name would be named too often.
    """

    def drawn(title: str, points: Sequence[Series]) -> Callable[[Axes], None]:
        def draw(axes: Axes) -> None:
            from matplotlib.ticker import LogLocator, NullLocator

            axes.set_title(title, fontsize="medium")
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_locator(NullLocator())
            _frontier(axes, points, highlight, in_legend=True)

        return draw

    return _figure(labels, *(drawn(title, points) for title, points in panels.items()))


def _frontier(
    axes: Axes, points: Sequence[Series], highlight: Sequence[str], *, in_legend: bool = False
) -> None:
    """The line and all points; grey ones say in the legend what they are, or nowhere."""
    best = undominated(_points(points))
    if len(best) > 1:
        x, y = zip(*best, strict=True)
        axes.step(x, y, where="post", color=INK, linewidth=1, alpha=0.6, label="best at its cost")
    coloured = [each for each in points if not highlight or each.label in highlight]
    for number, each in enumerate(each for each in points if each not in coloured):
        marker = _pick(MARKERS, len(coloured) + number) if in_legend else "o"
        _plot_grey(axes, each, marker=marker, label=each.label if in_legend else None)
    for number, each in enumerate(coloured):
        _plot(axes, each, each.x, number, linestyle="", markersize=7)


def _points(series: Sequence[Series]) -> list[tuple[float, float]]:
    return [(float(each.x[place]), y) for each in series for place, y in enumerate(each.y)]


def bars(series: Sequence[Series], labels: Labels) -> Figure:
    """Bars in groups, a group per word of `x`; intervals as whiskers."""

    def draw(axes: Axes) -> None:
        words = _words(series)
        wide = 0.8 / len(series)
        for number, each in enumerate(series):
            shift = (number - (len(series) - 1) / 2) * wide
            axes.bar(
                [words.index(str(x)) + shift for x in each.x],
                each.y,
                wide,
                yerr=_errors(each),
                label=each.label,
                color=_pick(COLOURS, number),
                hatch=_pick(HATCHES, number),
                edgecolor="white",
                ecolor=INK,
                capsize=3,
            )
        axes.set_xticks(range(len(words)), words)
        axes.grid(visible=False, axis="x")

    return _figure(labels, draw)


def can_draw() -> bool:
    """Whether matplotlib is installed; nothing is imported."""
    try:
        return find_spec("matplotlib") is not None
    except ValueError:  # a module that was put where it is by hand
        return False


def undominated(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Cost and quality of the points that no other beats in both, by cost."""

    def beaten(cost: float, quality: float) -> bool:
        return any((x, y) != (cost, quality) and x <= cost and y >= quality for x, y in points)

    return sorted({point for point in points if not beaten(*point)})


def _figure(labels: Labels, *draws: Callable[[Axes], None]) -> Figure:
    """What each of `draws` draws beside the last, with labels and a legend for all; or, without matplotlib,
    a figure that says so."""
    if not can_draw():
        return Figure(labels.title, "", b"")
    from matplotlib import style
    from matplotlib.figure import Figure as Drawing

    with style.context(["default", STYLE]):
        wide = INCHES[0] if len(draws) == 1 else PANEL_INCHES * len(draws)
        drawing = Drawing(figsize=(wide, INCHES[1]), layout="constrained")
        first, *_ = panels = drawing.subplots(1, len(draws), squeeze=False)[0]
        for axes, draw in zip(panels, draws, strict=True):
            axes.set(xlabel=labels.x)
            draw(axes)
        first.set(ylabel=labels.y)
        _legend(drawing, first)
        return _finished(drawing, labels)


def _plot(axes: Axes, series: Series, x: Sequence[Any], number: int, **style: Any) -> None:
    """One series in the colour and with the marker of its number."""
    axes.errorbar(
        x,
        series.y,
        yerr=_errors(series),
        label=series.label,
        color=_pick(COLOURS, number),
        marker=_pick(MARKERS, number),
        elinewidth=1,
        capsize=3,
        **style,
    )


def _plot_grey(axes: Axes, series: Series, **style: Any) -> None:
    """Small grey points with thin whiskers."""
    axes.errorbar(
        series.x,
        series.y,
        yerr=_errors(series),
        color=GREY,
        markersize=4,
        linestyle="",
        elinewidth=0.4,
        **style,
    )


def _name_points(
    axes: Axes, series: Sequence[Series], points: Sequence[tuple[float, float]]
) -> None:
    """Each name beside its point, where it hides nothing; widths are counted in letters, for any font."""
    axes.autoscale_view()
    limits = (*axes.get_xlim(), *axes.get_ylim())
    across, up = limits[1] - limits[0], limits[3] - limits[2]
    letter, line = across / NAME_LETTERS, up / NAME_LINES
    taken = [(x - letter, y - line / 2, x + letter, y + line / 2) for x, y in points]
    for each in series:
        wide = letter * len(each.label)
        for x, y in zip(map(float, each.x), each.y, strict=True):
            places = [
                (x + letter if side == "left" else x - letter - wide, y + rise * line, side)
                for rise in (0.6, -0.6, 0.0, 1.5, -1.5, 2.4, -2.4)
                for side in ("left", "right")
            ]
            boxes = [(left, low - line / 2, left + wide, low + line / 2) for left, low, _ in places]
            free = [
                number
                for number, box in enumerate(boxes)
                if limits[0] <= box[0]
                and box[2] <= limits[1]
                and not any(_overlap(box, other) for other in taken)
            ]
            best = free[0] if free else 0
            taken.append(boxes[best])
            side = places[best][2]
            axes.annotate(
                each.label,
                (x + letter if side == "left" else x - letter, places[best][1]),
                ha=side,
                va="center",
                fontsize=7.5,
                color=GREY,
            )


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _finished(drawing: Drawing, labels: Labels) -> Figure:
    svg, png = io.StringIO(), io.BytesIO()
    drawing.savefig(svg, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    drawing.savefig(png, format="png", dpi=160, metadata={"Software": None})
    themed = re.sub(r"(<svg[^>]*>)", rf"\1{DARK}", svg.getvalue(), count=1)
    return Figure(labels.title, themed, png.getvalue())


def _legend(drawing: Drawing, axes: Axes) -> None:
    """Above the figure, where it hides nothing, in as many columns as fit."""
    handles, names = axes.get_legend_handles_labels()
    if len(names) > 1:
        wide = LEGEND_WIDTH * drawing.get_figwidth() / INCHES[0]
        columns = int(wide) // (max(map(len, names)) + LEGEND_SIGN)
        drawing.legend(handles, names, loc="outside upper left", ncols=max(1, columns))


def _words(series: Sequence[Series]) -> list[str]:
    """The words on the x axis in the order of their first use; none where x is a number."""
    words = [x for each in series for x in each.x if isinstance(x, str)]
    return list(dict.fromkeys(words))


def _errors(series: Series) -> list[list[float]] | None:
    """Lengths of the whiskers below and above."""
    if not series.low:
        return None
    below = [y - low for y, low in zip(series.y, series.low, strict=True)]
    above = [high - y for y, high in zip(series.y, series.high, strict=True)]
    return [below, above]


def _pick(styles: Sequence[str], number: int) -> str:
    return styles[number % len(styles)]
