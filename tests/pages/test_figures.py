"""Figures: the same bytes every time, and told apart without colour."""

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.pages.figures import (
    COLOURS,
    DARK,
    GREY,
    INK,
    Figure,
    Labels,
    Series,
    bars,
    frontier,
    lines,
    undominated,
)

LABELS = Labels("Quality & <time>", "seconds", "pass rate")
WORDS = [
    Series("archer", ("1", "2", "inf"), (0.5, 0.6, 0.4), (0.4, 0.5, 0.3), (0.6, 0.7, 0.6)),
    Series("saber", ("1", "inf"), (0.55, 0.5)),
]
NUMBERS = [
    Series("archer", (1.0, 2.0, 3.0), (0.5, 0.7, 0.6), (0.4, 0.6, 0.5), (0.6, 0.8, 0.7)),
    Series("saber", (2.5, 0.5), (0.9, 0.1)),
]
DRAWN: dict[str, tuple[Callable[[Sequence[Series], Labels], Figure], list[Series]]] = {
    "lines over words": (lines, WORDS),
    "lines over numbers": (lines, NUMBERS),
    "frontier": (frontier, NUMBERS),
    "bars": (bars, WORDS),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_is_the_same_bytes_every_time(name: str) -> None:
    draw, series = DRAWN[name]
    first, second = draw(series, LABELS), draw(series, LABELS)
    assert first == second
    assert first.png.startswith(b"\x89PNG")
    for label in ("seconds", "pass rate", "archer", "saber"):
        assert f">{label}</text>" in first.svg
    assert "dc:date" not in first.svg


@pytest.mark.parametrize("name", DRAWN)
def test_in_a_page_it_takes_the_ink_of_the_page_and_ids_of_its_own(name: str) -> None:
    draw, series = DRAWN[name]
    html = draw(series, LABELS).html("figure-7")
    assert INK not in html
    assert "currentColor" in html
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert all(each.startswith("figure-7-") for each in ids)
    assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', html)) == set(ids)
    assert "<metadata" not in html
    assert 'aria-label="Quality &amp; &lt;time&gt;"' in html
    ElementTree.fromstring(html)


def test_highlighted_series_are_coloured_and_the_others_are_grey_with_their_names() -> None:
    crowd = [Series(f"other {number}", (1.0,), (0.5,)) for number in range(3)]
    plain = frontier([*NUMBERS, *crowd], LABELS).svg
    chosen = frontier([*NUMBERS, *crowd], LABELS, highlight=["saber"]).svg
    assert GREY not in plain
    assert COLOURS[1] in plain
    assert GREY in chosen
    assert COLOURS[1] not in chosen
    names = re.findall(r"<text[^>]*>(archer|saber|other \d)</text>", chosen)
    assert names.count("archer") == 3  # at each of its points, not in the legend
    assert names.count("saber") == 1
    places = re.findall(r"<text([^>]*)>other \d</text>", chosen)
    assert len(set(places)) == 3  # at one point, and yet not above each other


def test_a_file_is_readable_in_the_dark_and_a_page_keeps_its_own_ink() -> None:
    figure = lines(NUMBERS, LABELS)
    assert figure.svg.count(DARK) == 1
    assert DARK not in figure.html("x")
    ElementTree.fromstring(
        figure.svg.partition("<!DOCTYPE")[0] + figure.svg[figure.svg.index("<svg") :]
    )


def test_settings_of_the_user_change_nothing() -> None:
    import matplotlib as mpl

    usual = lines(NUMBERS, LABELS)
    with mpl.rc_context({"lines.linewidth": 9, "axes.facecolor": "red"}):
        assert lines(NUMBERS, LABELS) == usual


def test_lines_differ_in_dashes_and_bars_in_hatching() -> None:
    assert "stroke-dasharray" in lines(NUMBERS, LABELS).svg
    assert "<pattern" in bars(WORDS, LABELS).svg


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1))
def test_the_frontier_beats_or_equals_every_point_and_rises(points: list[tuple[int, int]]) -> None:
    best = undominated(points)
    assert set(best) <= set(points)
    for cost, quality in points:
        assert any(x <= cost and y >= quality for x, y in best)
    for (x, y), (later, higher) in pairwise(best):
        assert x < later
        assert y < higher


@pytest.mark.parametrize("draw", [lines, frontier])
def test_without_matplotlib_a_figure_is_the_remedy(
    draw: Callable[[Sequence[Series], Labels], Figure], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    figure = draw(NUMBERS, LABELS)
    assert (figure.svg, figure.png) == ("", b"")
    assert "pip install &#x27;.[report]&#x27;" in figure.html("x")
    ElementTree.fromstring(figure.html("x"))
