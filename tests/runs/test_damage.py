"""Damaged run folders: what nobody could use is refused with a sentence that names the place.

Here are journals and manifests as their readers see them, and `archer compare` on damaged manifests;
`test_strange_manifests` tries each of their fields on the commands that read finished runs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.cli import main
from archer.errors import ArcherError
from archer.runs.comparison import open_run
from archer.runs.faults import BadRun
from archer.runs.folder import JOURNAL, MANIFEST, RunFolder, read_recorded
from archer.runs.journal import Journal

PROBLEMS = 4
Lines = list[bytes]
Record = dict[str, Any]


def sample(number: int) -> Record:
    return {
        "event": "sample",
        "id": number,
        "prompt_sha256": "0" * 64,
        "completion": f"return {number} # pass fail",
        "tokens": [1, 2, number],
        "finish_reason": "stop",
        "updates": 3,
        "full_passes": 1,
        "cached_passes": 2,
        "reused_passes": 0,
        "revised_positions": 1,
        "prompt_tokens": 7,
        "seconds": {"total": 0.25},
    }


VERDICT = {"verdict": "fail", "reason": "wrong", "verdict_as_published": "fail"}
DEEP: Any = []
for _ in range(300):
    DEEP = [DEEP]


def grade(number: int) -> Record:
    return {"event": "grade", "id": number, "tier": "A", "suites": {"base": VERDICT}}


RECORDS: list[Record] = [each(number) for number in range(PROBLEMS) for each in (sample, grade)]
IDENTITY: Record = {
    "archer": "1",
    "task": {"name": "toy"},
    "evaluator": {"metric": "pass@1"},
    "problems": {"n": PROBLEMS},
    "prompts": {},
    "method": {"name": "archer", "settings": {"length": 8}},
    "batch": 1,
    "model": {"files": {}, "dtype": "float32", "device": "cpu"},
}
MANIFEST_HELD: Record = {
    "journal": 2,
    "identity": IDENTITY,
    "circumstances": {"platform": "here", "cores": None, "threads": 1},
}


def made(folder: Path, records: list[Record], manifest: Record | None = None) -> Path:
    folder.mkdir()
    journal = Journal(folder / JOURNAL)
    for record in records:
        journal.append(record)
    journal.close()
    (folder / MANIFEST).write_text(json.dumps(MANIFEST_HELD if manifest is None else manifest))
    return folder


def old(folder: Path, records: list[Any]) -> Path:
    """As a version without checksums left it."""
    held = {key: value for key, value in MANIFEST_HELD.items() if key != "journal"}
    made(folder, [], held)
    lines = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
    (folder / JOURNAL).write_text(lines)
    return folder


def swapped(a: int, b: int) -> Callable[[Lines], Lines]:
    def swap(lines: Lines) -> Lines:
        lines[a], lines[b] = lines[b], lines[a]
        return lines

    return swap


def replaced(at: int, before: bytes, after: bytes) -> Callable[[Lines], Lines]:
    def replace(lines: Lines) -> Lines:
        assert before in lines[at]
        lines[at] = lines[at].replace(before, after, 1)
        return lines

    return replace


# name: (what is done to the lines, the line that is named)
CHANGES: dict[str, tuple[Callable[[Lines], Lines], int]] = {
    "a byte of a completion": (replaced(2, b"return 1", b"return 7"), 3),
    "a verdict": (replaced(3, b'"verdict":"fail"', b'"verdict":"pass"'), 4),
    "a verdict as published": (replaced(1, b'published":"fail"', b'published":"pass"'), 2),
    "a time": (replaced(0, b"0.25", b"0.05"), 1),
    "a count of passes": (replaced(4, b'"full_passes":1', b'"full_passes":0'), 5),
    "an id": (replaced(6, b'"id":3', b'"id":9'), 7),
    "a blank": (replaced(2, b'"sample"', b'"sample" '), 3),
    "an escape for a letter": (replaced(2, b"return 1", b"\\u0072eturn 1"), 3),
    "a checksum": (lambda lines: [*lines[:2], lines[2][:-4] + b'00"}', *lines[3:]], 3),
    "a checksum in capitals": (
        lambda lines: [*lines[:2], lines[2][:-34] + lines[2][-34:].upper(), *lines[3:]],
        3,
    ),
    "a line taken out": (lambda lines: lines[:2] + lines[3:], 3),
    "two lines changed over": (swapped(2, 4), 3),
    "a line twice": (lambda lines: [*lines[:3], lines[2], *lines[3:]], 4),
    "the first line gone": (lambda lines: lines[1:], 1),
    "checksums taken off": (lambda lines: [line[:-43] + b"}" for line in lines], 1),
    "one checksum taken off": (lambda lines: [*lines[:3], lines[3][:-43] + b"}", *lines[4:]], 4),
    "an empty line": (lambda lines: [*lines[:2], b"", *lines[2:]], 3),
    "zero bytes": (lambda lines: [*lines[:4], b"\0" * 512, *lines[5:]], 5),
    "a line of another journal": (
        lambda lines: [
            *lines[:2],
            b'{"event":"grade","id":2,"check":"' + b"0" * 32 + b'"}',
            *lines[2:],
        ],
        3,
    ),
    "a half line and more behind it": (lambda lines: [*lines[:2], lines[2][:40], *lines[3:]], 3),
    "two lines run together": (lambda lines: [*lines[:2], lines[2] + lines[3], *lines[4:]], 3),
    "a carriage return": (lambda lines: [*lines[:2], lines[2] + b"\r", *lines[3:]], 3),
    "another encoding": (replaced(2, b"return", b"retur\xff"), 3),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_journal_is_refused_by_the_number_of_its_line(tmp_path: Path, name: str) -> None:
    run = made(tmp_path / "run", RECORDS)
    change, line = CHANGES[name]
    lines = (run / JOURNAL).read_bytes().split(b"\n")[:-1]
    (run / JOURNAL).write_bytes(b"".join(each + b"\n" for each in change(lines)))
    with pytest.raises(BadRun, match=rf"Line {line} of .* is damaged"):
        read_recorded(run)


def test_every_flipped_bit_of_a_journal_is_found(tmp_path: Path) -> None:
    run = made(tmp_path / "run", RECORDS[:2])
    whole = (run / JOURNAL).read_bytes()
    for at in range(len(whole) - 1):
        flipped = whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :]
        (run / JOURNAL).write_bytes(flipped)
        with pytest.raises(BadRun):
            read_recorded(run)


def without(name: str, record: Record) -> Record:
    return {key: value for key, value in record.items() if key != name}


def suites(verdict: object) -> Record:
    return grade(0) | {"suites": {"base": {"verdict": verdict, "verdict_as_published": "fail"}}}


# name: (records with good checksums, or without any, what the refusal says)
CONTENTS: dict[str, tuple[list[Any], str]] = {
    "no completion": ([without("completion", sample(0))], "completion must be a text"),
    "a completion of null": ([sample(0) | {"completion": None}], "completion must be a text"),
    "a completion in a list": ([sample(0) | {"completion": ["x"]}], "completion must be a text"),
    "no tokens": ([without("tokens", sample(0))], "tokens must be a list of token ids"),
    "tokens that are texts": ([sample(0) | {"tokens": ["1"]}], "tokens must be a list"),
    "negative tokens": ([sample(0) | {"tokens": [-1]}], "tokens must be a list"),
    "tokens that are truths": ([sample(0) | {"tokens": [True]}], "tokens must be a list"),
    "no updates": ([without("updates", sample(0))], "updates must be a whole number"),
    "half an update": ([sample(0) | {"updates": 1.5}], "updates must be a whole number"),
    "updates beyond all numbers": ([sample(0) | {"updates": 10**400}], "updates must be a whole"),
    "operations beyond all": (
        [sample(0) | {"operations": 10**25}],
        "operations: Input should be less",
    ),
    "half a pair in a completion": ([sample(0) | {"completion": "\ud800"}], "completion must be"),
    "the other half": ([sample(0) | {"completion": "a\udc80b"}], "completion must be a text"),
    "a completion nested deeply": ([sample(0) | {"completion": DEEP}], "completion must be a text"),
    "more seconds than there were": (
        [sample(0) | {"seconds": {"total": 1e308}}],
        "seconds must be an object",
    ),
    "updates as text": ([sample(0) | {"updates": "3"}], "updates must be a whole number"),
    "passes below zero": ([sample(0) | {"full_passes": -1}], "full_passes must be a whole"),
    "no seconds": ([without("seconds", sample(0))], "seconds must be an object"),
    "seconds as a number": ([sample(0) | {"seconds": 1.0}], "seconds must be an object"),
    "seconds without a total": ([sample(0) | {"seconds": {}}], "seconds must be an object"),
    "seconds below zero": ([sample(0) | {"seconds": {"total": -1}}], "seconds must be an object"),
    "an id of null": ([sample(0) | {"id": None}], "id must be a number or a text"),
    "an id of true": ([sample(0) | {"id": True}], "id must be a number or a text"),
    "an id in a list": ([sample(0) | {"id": [1]}], "id must be a number or a text"),
    "no event": ([without("event", sample(0))], "no known kind"),
    "an unknown event": ([{"event": "dance", "id": 1}], "no known kind"),
    "an event in a list": ([{"event": ["sample"], "id": 1}], "no known kind"),
    "no suites": ([sample(0), without("suites", grade(0))], "suites must be an object"),
    "suites in a list": ([sample(0), grade(0) | {"suites": []}], "suites must be an object"),
    "no suite": ([sample(0), grade(0) | {"suites": {}}], "suites must be an object"),
    "no base suite": ([sample(0), grade(0) | {"suites": {"more": VERDICT}}], "one of them base"),
    "other suites for another problem": (
        [*RECORDS[:3], grade(1) | {"suites": {"base": VERDICT, "more": VERDICT}}],
        "grades of different suites: 'base' first, and 'base, more' of problem 1",
    ),
    "a suite of null": ([sample(0), grade(0) | {"suites": {"base": None}}], "suites must be"),
    "an unknown verdict": ([sample(0), suites("great")], "suites must be an object"),
    "a verdict of true": ([sample(0), suites(True)], "suites must be an object"),
    "a verdict in a list": ([sample(0), suites(["pass"])], "suites must be an object"),
    "a fault as a verdict": ([sample(0), suites("harness_error")], "suites must be an object"),
    "no tier": ([sample(0), without("tier", grade(0))], "tier must be a text"),
    "a tier of 1": ([sample(0), grade(0) | {"tier": 1}], "tier must be a text"),
    "a grade before its completion only": ([grade(0)], "but no completion of it"),
    "a completion twice": ([sample(0), sample(0)], "twice"),
    "one id as number and text": ([sample(0), sample(0) | {"id": "0"}], "twice"),
}


@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.parametrize("make", [made, old])
def test_records_that_nobody_could_use_are_refused(
    tmp_path: Path, make: Callable[..., Path], name: str
) -> None:
    records, said = CONTENTS[name]
    with pytest.raises(BadRun, match=said):
        read_recorded(make(tmp_path / "run", records))


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none_are_refused(tmp_path: Path, constant: str) -> None:
    run = old(tmp_path / "run", [])
    text = json.dumps(sample(0)).replace("0.25", constant)
    (run / JOURNAL).write_text(text + "\n")
    with pytest.raises(BadRun, match=r"Line 1 of .* is damaged"):
        read_recorded(run)


@pytest.mark.parametrize("text", ["[]", "null", "3", '"x"', "{", "{" * 100_000, '{"id":1}x'])
def test_lines_that_are_no_objects_are_refused(tmp_path: Path, text: str) -> None:
    run = old(tmp_path / "run", [])
    (run / JOURNAL).write_text(f"{text}\n", encoding="utf-8")
    with pytest.raises(BadRun, match=r"Line 1 of .* is damaged: it holds no JSON object"):
        read_recorded(run)


def test_an_old_journal_opens_and_goes_on(tmp_path: Path) -> None:
    run = old(tmp_path / "run", RECORDS[:-1])
    assert len(read_recorded(run).samples) == PROBLEMS
    with RunFolder(run, IDENTITY, {}) as folder:
        assert folder.resumed
        folder.journal.append(RECORDS[-1])
    assert len(open_run(run).recorded.grades) == PROBLEMS
    lines = (run / JOURNAL).read_bytes().split(b"\n")
    assert [b'"check"' in line for line in lines[:-1]] == [False] * 7 + [True]


def test_a_deleted_journal_beside_a_manifest_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made(tmp_path / "run", RECORDS)
    (run / JOURNAL).unlink()
    for action in (lambda: RunFolder(run, IDENTITY, {}), lambda: open_run(run)):
        with pytest.raises(BadRun, match=r"has a manifest\.json but no journal\.jsonl"):
            action()
    assert not (run / JOURNAL).exists()
    assert main(["compare", str(run), str(run)]) == 2
    assert "Restore the file" in capsys.readouterr().err


def test_a_run_killed_between_journal_and_manifest_starts_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / JOURNAL).touch()
    with RunFolder(run, IDENTITY, {}) as folder:
        assert not folder.resumed
    shutil.rmtree(run)
    run.mkdir()
    (run / JOURNAL).write_text("{}\n")
    with pytest.raises(BadRun, match="holds other files and no run"):
        RunFolder(run, IDENTITY, {})


def test_a_problem_that_was_not_planned_is_refused(tmp_path: Path) -> None:
    run = made(tmp_path / "run", [sample(0), sample(77)])
    with (
        RunFolder(run, IDENTITY, {}) as folder,
        pytest.raises(BadRun, match="holds the problem '77', which is not part of the run"),
    ):
        folder.recorded(planned=["0", "1"])


MANIFESTS: dict[str, object] = {
    "empty": {},
    "identity of null": MANIFEST_HELD | {"identity": None},
    "identity in a list": MANIFEST_HELD | {"identity": [1]},
    "no circumstances": {"journal": 2, "identity": IDENTITY},
    "no problems": MANIFEST_HELD | {"identity": {"method": IDENTITY["method"]}},
    "problems without a number": MANIFEST_HELD | {"identity": IDENTITY | {"problems": {}}},
    "a number as text": MANIFEST_HELD | {"identity": IDENTITY | {"problems": {"n": "4"}}},
    "no method": MANIFEST_HELD | {"identity": {"problems": {"n": 4}}},
    "a method without settings": MANIFEST_HELD | {"identity": IDENTITY | {"method": {"name": "x"}}},
    "no problem": MANIFEST_HELD | {"identity": IDENTITY | {"problems": {"n": 0}}},
    "too deep": MANIFEST_HELD | {"more": DEEP},
    "a list": [],
    "a number": 7,
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_damaged_manifests_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    run = made(tmp_path / "run", RECORDS)
    (run / MANIFEST).write_text(json.dumps(MANIFESTS[name]))
    with pytest.raises(BadRun, match=r"manifest\.json is damaged"):
        open_run(run)
    assert main(["compare", str(run), str(run)]) == 2
    assert "Traceback" not in capsys.readouterr().err


@given(content=st.binary(max_size=200), manifest=st.sampled_from([2, 1, None]))
def test_drawn_journals_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, manifest: int | None
) -> None:
    run = made(tmp_path_factory.mktemp("drawn") / "run", [], MANIFEST_HELD | {"journal": manifest})
    (run / JOURNAL).write_bytes(content)
    try:
        said = f"{len(read_recorded(run).samples)} completions."
    except ArcherError as error:
        said = str(error)
    assert said.endswith(".")
