"""The documentation as a site: it builds, its links lead somewhere, and it asks no other server."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

import pytest

from conftest import REPOSITORY
from support.processes import ran

if TYPE_CHECKING:
    from playwright.sync_api import Browser

REFERENCE = re.compile(r"""(?:href|src)=["']?([^"'\s>]+)""")
FETCHED = re.compile(
    r"""<(?:script|img|iframe)[^>]*\ssrc=["']?(https?:)|<link[^>]*href=["']?(https?:)[^>]*stylesheet"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="the site comes with the extra [site]")
    folder = tmp_path_factory.mktemp("site")
    command = (sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder)
    ran(*command, cwd=REPOSITORY, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    return folder


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    pages = {path for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 20
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for target in REFERENCE.findall(text):
            place, _, anchor = unquote(target).partition("#")
            if re.match(r"[a-z]+:|//|data", place):
                continue
            aim = (page.parent / place).resolve() if place else page
            aim = aim / "index.html" if aim.is_dir() else aim
            assert aim.is_file(), (page.name, target)
            if anchor and aim.suffix == ".html" and not anchor.startswith("__"):
                assert re.search(rf'id="?{re.escape(anchor)}["\s>]', aim.read_text()), (
                    page.name,
                    target,
                )
        assert not FETCHED.search(text), page.name


def test_a_search_finds_the_glossary_and_the_methods_first(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    boosted = {each["location"].partition("#")[0] for each in index["docs"] if "boost" in each}
    assert boosted == {"concepts.html", "compatibility.html"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["index.html", "beyond.html"])
def test_a_page_fits_a_phone_by_day_and_by_night(
    name: str, scheme: Literal["light", "dark"], site: Path, browser: Browser
) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    try:
        page.goto((site / name).as_uri())
        assert page.locator("table").count() >= 1
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        red, green, blue = (int(each) for each in re.findall(r"\d+", paper)[:3])
        assert (red + green + blue > 3 * 128) == (scheme == "light"), paper
    finally:
        page.close()


def test_the_reference_is_made_of_the_docstrings(site: Path) -> None:
    text = (site / "api.html").read_text(encoding="utf-8")
    for name in (
        "archer.load",
        "archer.model.Model.generate",
        "archer.extend.Decoder",
        "archer.extend.Logits",
        "archer.extend.leading",
    ):
        assert f'id="{name}"' in text
    assert "The device that the model computes on" in text


def test_every_page_is_in_the_navigation() -> None:
    content = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"[\w-]+\.md", content.partition("\nnav:\n")[2]))
    assert {page.name for page in (REPOSITORY / "docs").glob("*.md")} == named
