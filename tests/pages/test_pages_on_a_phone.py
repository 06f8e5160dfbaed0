"""Whole reports on a narrow screen, by day and by night: nothing sticks out, and it can be read."""

import re
import shutil

import pytest

pytest.importorskip("matplotlib", reason="figures come with the extra [report]")

from archer.runs.comparison import open_run
from archer.runs.evaluation import evaluate
from archer.runs.report import runs_page
from archer.runs.selection import Selection
from archer_studies.registry import STUDIES
from archer_studies.reproduction import write_report
from conftest import REPOSITORY
from pages.conftest import Opener
from runs.toy import Quiet, toy_model, toy_request

PHONE = (390, 844)
SHOWN = ("cross-domain", "age")
"""Studies with wide tables and with a figure."""
OPEN = "document.querySelectorAll('details').forEach(each => { each.open = true; })"
STICKING = "document.documentElement.scrollWidth - innerWidth"
BROKEN = """[...document.querySelectorAll("th")].filter(cell => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return range.getClientRects().length > cell.textContent.trim().split(/\\s+/).length;
}).map(cell => cell.textContent)"""
"""Heads of columns with more lines than words."""
COLOURS = "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pages")
    model = toy_model(folder / "model")
    for name, more in (("first", {}), ("second", {"method": "saber", "settings": {"length": 6}})):
        request = toy_request(model, traces=1, selection=Selection(limit=2), **more)
        evaluate(request, folder / name, Quiet())
    for name in SHOWN:
        shutil.copy(REPOSITORY / "docs" / "results" / f"{name}.json", folder)
    command = "archer reproduce --out a-folder-with-a-very-long-name/that-goes-on-and-on-and-on"
    report = write_report(folder, [STUDIES[name] for name in SHOWN], command)
    return {
        "runs": runs_page([open_run(folder / name) for name in ("first", "second")], command),
        "reproduction": report.read_text(encoding="utf-8"),
    }


def brightness(colour: str) -> float:
    red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
    return (0.3 * red + 0.6 * green + 0.1 * blue) / 255


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["runs", "reproduction"])
def test_nothing_sticks_out(name: str, scheme: str, pages: dict[str, str], show: Opener) -> None:
    page = show(pages[name], PHONE, color_scheme=scheme)
    page.evaluate(OPEN)
    assert page.locator("table").count() >= 2
    assert page.locator("svg").count() >= 1
    assert page.evaluate(STICKING) <= 0
    assert page.evaluate(BROKEN) == []
    ink, paper = map(brightness, page.evaluate(COLOURS))
    assert (ink < paper) == (scheme == "light")
    assert abs(ink - paper) > 0.6
