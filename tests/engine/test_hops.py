"""The walk of one call of `generate` that docs/concepts.md describes is the one that is made."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import archer
from archer.model import Model
from conftest import REPOSITORY
from engine.test_engine import ids

SOURCES = Path(archer.__file__).parent.parent
HOP = re.compile(r"^(\d+)\. `([\w.]+)` \(`src/([\w/.]+)`\)", re.MULTILINE)
Hop = tuple[str, str]
"""A function by its qualified name, and its file."""


def told() -> list[Hop]:
    page = (REPOSITORY / "docs" / "concepts.md").read_text(encoding="utf-8")
    (section,) = re.findall(
        r"^## One call of `generate`.*?(?=^## )", page, re.MULTILINE | re.DOTALL
    )
    found = HOP.findall(section)
    assert [int(number) for number, _, _ in found] == list(range(1, len(found) + 1))
    return [(name, file) for _, name, file in found]


def called(act: Callable[[], Any]) -> list[Hop]:
    """Functions of the package in the order in which they were first called."""
    seen: dict[Hop, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (place := Path(frame.f_code.co_filename)).is_relative_to(SOURCES):
            seen.setdefault((frame.f_code.co_qualname, str(place.relative_to(SOURCES))))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    return list(seen)


def test_every_hop_is_made_once_and_in_the_order_in_which_it_is_told(model: Model) -> None:
    hops = told()
    assert len(hops) == len(set(hops)) > 10
    made = called(lambda: model.generate([ids(1, 4), ids(2, 5)], "archer", length=8))
    assert [hop for hop in made if hop in hops] == hops
