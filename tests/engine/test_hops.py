"""The walk of one call of `generate` that docs/concepts.md describes is the one that is made."""

import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import archer
from archer.model import Model, load
from conftest import REPOSITORY
from support.pairs import ids

SOURCES = Path(archer.__file__).parent.parent
MOST_FILES = 40
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


def called(act: Callable[[], Any]) -> Counter[Hop]:
    """Functions of the package in the order in which they were first called, and how often each was."""
    seen: Counter[Hop] = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (place := Path(frame.f_code.co_filename)).is_relative_to(SOURCES):
            seen[frame.f_code.co_qualname, str(place.relative_to(SOURCES))] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    return seen


def test_every_hop_is_made_once_and_in_the_order_in_which_it_is_told(model: Model) -> None:
    hops = told()
    assert len(hops) == len(set(hops)) > 10
    made = called(lambda: model.generate([ids(1, 4), ids(2, 5)], "archer", length=8))
    assert [hop for hop in made if hop in hops] == hops


def test_a_call_touches_few_files() -> None:
    """Files of the package in which a function runs, by the bundled model and the default method.

    What is imported does not count, nor what runs only once in a process to fill a table: the call before
    has done that.
    """
    pocket = load("pocket", device="cpu", dtype="float32")
    pocket.generate("Sum the list.", length=8)
    made = called(lambda: pocket.generate("Sum the list.", length=32))
    files = {file for _, file in made}
    assert {"archer/model.py", "archer/passes/forward.py", "archer/decoders/saber.py"} < files
    assert len(files) <= MOST_FILES, sorted(files)


def test_a_request_is_prepared_started_and_asked_once(model: Model) -> None:
    made = called(lambda: model.generate(ids(1, 4), "archer", length=8))
    times = Counter({name: count for (name, _), count in made.items()})
    assert times["Job.of"] == times["Language.prompt"] == times["Walk.__init__"] == 1
    assert times["Saber.begin"] == 1
    assert times["Saber.canvas"] == 1 + times["Walk.advance"], (
        "before the first pass, and after each"
    )
