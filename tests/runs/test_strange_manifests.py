"""Finished runs with a field missing or strange: the commands that read them end with a sentence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from archer.cli import main
from archer.runs.folder import JOURNAL, MANIFEST, SUMMARY
from runs.test_comparison import write_run
from runs.test_records import SUMMARY as HELD

Place = tuple[str, ...]
Capture = pytest.CaptureFixture[str]
REMOVED = "no such field"
QUICK: tuple[Any, ...] = (REMOVED, None, 10**400, [])
SLOW: tuple[Any, ...] = (True, -1, 1e308, "x", "\ud800", [1], {}, {"a": []})
STRANGE = (*QUICK, *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW))


def places(value: Any, here: Place = ()) -> Iterator[Place]:
    """Every field of an object, inner ones too."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield (*here, name)
            yield from places(inner, (*here, name))


def changed(value: Any, place: Place, by: Any) -> Any:
    found = deepcopy(value)
    inner = found
    for name in place[:-1]:
        inner = inner[name]
    if by is REMOVED:
        del inner[place[-1]]
    else:
        inner[place[-1]] = by
    return found


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """With a summary, as `archer eval` leaves it."""
    made = write_run(tmp_path / "run", [True], [1.0])
    (made / SUMMARY).write_text(HELD)
    return made


def ends_in_a_sentence(capsys: Capture, *command: str) -> int:
    """The exit code; an error of Archer's own code would come out of `main`."""
    code = main(command)
    said = capsys.readouterr()
    assert code in (0, 2)
    assert code == 0 or said.err.startswith("archer: ")
    assert code == 0 or said.err.rstrip().endswith(".")
    return code


@pytest.mark.parametrize("strange", STRANGE, ids=lambda each: ascii(each)[:14])
def test_any_field_of_a_manifest_may_be_strange(
    run: Path, tmp_path: Path, capsys: Capture, strange: Any
) -> None:
    other = shutil.copytree(run, tmp_path / "other")
    sound = json.loads((run / MANIFEST).read_text())
    assert main(["compare", str(run), str(other)]) == 0
    codes = set()
    for place in places(sound):
        (other / MANIFEST).write_text(json.dumps(changed(sound, place, strange)))
        for both in ((run, other), (other, run), (other, other)):
            codes.add(ends_in_a_sentence(capsys, "compare", *map(str, both)))
    assert 2 in codes


@pytest.mark.parametrize("strange", STRANGE, ids=lambda each: ascii(each)[:14])
def test_any_field_of_a_report_may_be_strange(
    run: Path, tmp_path: Path, capsys: Capture, strange: Any
) -> None:
    pytest.importorskip("matplotlib", reason="figures come with the extra [report]")
    for name in (MANIFEST, SUMMARY):
        kept = (run / name).read_text()
        for place in places(json.loads(kept)):
            (run / name).write_text(json.dumps(changed(json.loads(kept), place, strange)))
            ends_in_a_sentence(capsys, "report", str(run), "-o", str(tmp_path / "page.html"))
        (run / name).write_text(kept)
    assert ends_in_a_sentence(capsys, "report", str(run), "-o", str(tmp_path / "page.html")) == 0


JOURNALS = {
    "an id changed in sample and grade": (('"id": 1', '"id": 9'), "problems of one run only"),
    "another suite": (('"extended"', '"other"'), "suites of one run only: extended against other"),
    "no time": (('"total": 1.0', '"total": 0'), None),
    "hardly any time": (('"total": 1.0', '"total": 1e-300'), None),
    "very much time": (('"total": 1.0', '"total": 1e308'), "seconds must be an object"),
}


@pytest.mark.parametrize("name", JOURNALS)
def test_journals_that_do_not_fit_each_other(tmp_path: Path, capsys: Capture, name: str) -> None:
    (before, after), said = JOURNALS[name]
    first = write_run(tmp_path / "a", [True] * 3, [1.0] * 3)
    second = shutil.copytree(first, tmp_path / "b")
    (second / JOURNAL).write_text((second / JOURNAL).read_text().replace(before, after))
    for both in ((first, second), (second, first)):
        assert main(["compare", *map(str, both)]) == (0 if said is None else 2)
        shown = capsys.readouterr()
        assert "nothing can be said about speed" in shown.out or said is not None
        words = "suites of one run only" if name == "another suite" else said
        assert words is None or words in shown.err
    assert main(["compare", str(first), str(second), "--json"]) == (0 if said is None else 2)


def test_more_problems_than_planned_are_damage(tmp_path: Path, capsys: Capture) -> None:
    run = write_run(tmp_path / "a", [True] * 3, [1.0] * 3, identity__problems={"n": 2})
    assert main(["compare", str(run), str(run)]) == 2
    assert "holds 3 problems, and its manifest plans 2" in capsys.readouterr().err


def test_files_of_other_names_among_the_traces_are_left_alone(
    run: Path, tmp_path: Path, capsys: Capture
) -> None:
    pytest.importorskip("matplotlib", reason="figures come with the extra [report]")
    (run / "traces").mkdir()
    (run / "traces" / "notes.jsonl").write_text("mine")
    assert main(["report", str(run), "-o", str(tmp_path / "page.html")]) == 0
