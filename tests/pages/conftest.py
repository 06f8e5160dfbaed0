"""Pages from files, in the browser that all tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DESKTOP = (1280, 900)
Opener = Callable[..., "Page"]


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Opener]:
    """Opens a page from a file; at the end it must have complained of nothing and asked for nothing."""
    wrong: list[str] = []
    pages: list[Page] = []

    def open_page(html: str, size: tuple[int, int] = DESKTOP, **options: Any) -> Page:
        path = tmp_path / f"page-{len(pages)}.html"
        path.write_text(html, encoding="utf-8")
        page = browser.new_page(viewport={"width": size[0], "height": size[1]}, **options)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        pages.append(page)
        wrong.extend(url for url in asked if url != path.as_uri())
        page.on("request", lambda request: wrong.append(request.url))
        return page

    yield open_page
    for page in pages:
        page.close()
    assert wrong == []
