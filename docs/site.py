"""What the site does to the pages: files beside `docs` become pages, and code fences lose our own words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
BESIDE = {"../CHANGELOG.md": ("changelog.md", ROOT / "CHANGELOG.md")}
"""Links out of the folder, the page each becomes, and what the page is made of."""
FIRST = ("concepts.md", "compatibility.md")
"""Pages that say what a word or a method is: a search shows them before pages that only use it."""


def on_files(files: Files, config: Any) -> Files:
    for name, path in BESIDE.values():
        files.append(File.generated(config, name, content=path.read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    if page.file.src_uri in FIRST:
        page.meta["search"] = {"boost": 2}
    for link, (name, _) in BESIDE.items():
        markdown = markdown.replace(f"]({link})", f"]({name})")
    return re.sub(r"^```python no-run$", "```python", markdown, flags=re.MULTILINE)
