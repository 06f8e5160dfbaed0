"""Run folders that are damaged, strange, denied or hostile: refused with a sentence that names the place."""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from archer.cli import main
from archer.errors import ArcherError, BadRun, DiskFault
from archer.files import replace_json
from archer.judge import Verdict
from archer.runs.comparison import open_run
from archer.runs.folder import JOURNAL, MANIFEST, SUMMARY, RunFolder, read_recorded, read_summary
from archer.runs.journal import read_records
from archer.runs.records import GradeLine, SampleLine, Score, SuiteVerdict, as_line, shown
from archer.runs.summary import lines
from archer.tasks.grading import GradedCompletion
from conftest import let_everybody_through
from support.run_folders import (
    HELD,
    IDENTITY,
    RECORDS,
    SECONDS,
    SUMMARY_TEXT,
    VERDICT,
    Record,
    grade,
    replaced,
    rewrite_journal,
    sample,
    write_folder,
    write_run,
)

NOBODY = 65534
Place = tuple[str, ...]
Capture = pytest.CaptureFixture[str]
DEEP: Any = []
for _ in range(300):
    DEEP = [DEEP]


def without(name: str, record: Record) -> Record:
    return {key: value for key, value in record.items() if key != name}


STRANGE_FIELDS: dict[str, tuple[Any, ...]] = {
    "completion": (None, ["x"], "\ud800", "a\udc80b", DEEP),
    "tokens": (["1"], [-1], [True]),
    "updates": (1.5, 10**400, "3"),
    "operations": (10**25, None),
    "full_passes": (-1,),
    "seconds": (1.0, {}, *({**SECONDS, "total": total} for total in (-1, 1e308))),
    "id": (None, True, [1]),
}
SUITES: tuple[Any, ...] = (
    *([], {}, {"more": VERDICT}, {"base": None}),
    *({"base": VERDICT | {"verdict": each}} for each in ("great", True, ["pass"], "harness_error")),
)
# records of journals, and what the refusal says
JOURNALS_REFUSED: list[tuple[list[Any], str]] = [
    *(
        ([sample(0) | {name: value}], f"{name} must be")
        for name, values in STRANGE_FIELDS.items()
        for value in values
    ),
    *(([sample(0), grade(0) | {"suites": each}], "one of them base, not") for each in SUITES),
    ([without("event", sample(0))], "no known kind"),
    ([{"event": "dance", "id": 1}], "no known kind"),
    ([{"event": ["sample"], "id": 1}], "no known kind"),
    ([sample(0), without("suites", grade(0))], "suites must be an object"),
    ([sample(0), without("tier", grade(0))], "tier must be a text"),
    ([sample(0), grade(0) | {"tier": 1}], "tier must be a text"),
    (
        [*RECORDS[:3], grade(1, base=VERDICT, more=VERDICT)],
        "grades of different suites: 'base' first, and 'base, more' of problem 1",
    ),
    ([grade(0)], "but no completion of it"),
    ([sample(0), sample(0)], "twice"),
    ([sample(0), sample(0, id="0")], "twice"),
]


@pytest.mark.parametrize(("records", "said"), JOURNALS_REFUSED, ids=lambda each: ascii(each)[-24:])
def test_records_that_nobody_could_use_are_refused(
    tmp_path: Path, records: list[Any], said: str
) -> None:
    with pytest.raises(BadRun, match=said):
        read_recorded(write_folder(tmp_path / "run", records))


@pytest.mark.parametrize("name", sorted(sample(0).keys() - {"event"}))
def test_every_field_of_a_completion_is_required(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadRun, match=rf"Line 1 of .* is damaged: {name} must be"):
        read_recorded(write_folder(tmp_path / "run", [without(name, sample(0))]))


def test_a_deleted_journal_beside_a_manifest_is_refused(tmp_path: Path, capsys: Capture) -> None:
    run = write_folder(tmp_path / "run")
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
    run = write_folder(tmp_path / "run", [sample(0), sample(77)])
    with (
        RunFolder(run, IDENTITY, {}) as folder,
        pytest.raises(BadRun, match="holds the problem '77', which is not part of the run"),
    ):
        folder.recorded(planned=["0", "1"])


MANIFESTS: dict[str, object] = {
    "empty": {},
    "identity in a list": HELD | {"identity": [1]},
    "a number as text": HELD | {"identity": IDENTITY | {"problems": {"n": "4"}}},
    "no problem": HELD | {"identity": IDENTITY | {"problems": {"n": 0}}},
    "too deep": HELD | {"more": DEEP},
    "a list": [],
    "a number": 7,
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_damaged_manifests_are_refused(tmp_path: Path, capsys: Capture, name: str) -> None:
    run = write_folder(tmp_path / "run")
    (run / MANIFEST).write_text(json.dumps(MANIFESTS[name]))
    with pytest.raises(BadRun, match=r"manifest\.json is damaged"):
        open_run(run)
    assert main(["compare", str(run), str(run)]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("journal", [None, 0, 1, 3, 2.5, "2", [2], 10**30])
def test_a_journal_of_another_format_is_named(tmp_path: Path, journal: object) -> None:
    run = write_folder(tmp_path / "run", manifest=HELD | {"journal": journal})
    said = (
        rf"journal must be 2, the only format .* reads, not {re.escape(shown(journal))}\. Restore"
    )
    with pytest.raises(BadRun, match=said):
        RunFolder(run, IDENTITY, {})


@pytest.mark.parametrize("journal", [None, 1, 2, 3])
def test_no_version_in_a_manifest_makes_checksums_optional(
    tmp_path: Path, capsys: Capture, journal: int | None
) -> None:
    run = write_folder(tmp_path / "run", manifest=HELD | {"journal": journal})
    lines = [json.dumps(record) for record in read_records(run / JOURNAL)]
    (run / JOURNAL).write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(BadRun, match=r"Line 1 of .* is damaged: it has no checksum"):
        read_recorded(run)
    with pytest.raises(BadRun, match=r"it has no checksum|journal must be 2"):
        RunFolder(run, IDENTITY, {})
    assert main(["compare", str(run), str(run)]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("record", [sample(7), sample(7) | {"id": "x/1"}, grade(7)])
def test_a_line_of_a_journal_is_written_as_it_was_read(record: Record) -> None:
    """Nothing is converted, and nobody changes a record."""
    line = as_line(record, "Line 1")
    assert isinstance(line, SampleLine | GradeLine)
    assert json.dumps(line.plain()) == json.dumps(record)
    with pytest.raises(ValueError, match="frozen"):
        line.id = 8


def test_a_summary_is_written_as_it_was_read(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text(SUMMARY_TEXT)
    found = read_summary(tmp_path)
    assert json.dumps(found.plain(), indent=2) + "\n" == SUMMARY_TEXT
    assert list(found.scores) == ["pass@1", "pass@1_extended"]
    assert found.scores["pass@1"] == Score(
        value=0.5, interval=(0.1, 0.9), as_published=0.5, clean=1.0
    )
    assert next(lines(found)) == "toy by archer: 2 problems"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"n": 2', '"n": "2"', "n: Input should be a valid integer"),
        ('"pass@1": 0.5', '"pass@1": true', "scores"),
        ('"tiers": [', '"tears": [', "tiers: Field required"),
    ],
)
def test_a_damaged_summary_is_refused(tmp_path: Path, before: str, after: str, said: str) -> None:
    assert before in SUMMARY_TEXT
    (tmp_path / "summary.json").write_text(SUMMARY_TEXT.replace(before, after, 1))
    with pytest.raises(BadRun, match=rf"summary\.json is damaged: {said}"):
        read_summary(tmp_path)


def test_a_graded_row_is_the_same_in_a_report_and_in_a_journal() -> None:
    row = GradedCompletion(7, Verdict("pass"), Verdict("fail", "wrong"), Verdict("pass"))
    journaled = SuiteVerdict.model_validate(row.verdicts()).plain()
    assert row.to_dict() == {"task_id": 7, **journaled}


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
    (made / SUMMARY).write_text(SUMMARY_TEXT)
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
    rewrite_journal(second, replaced(before, after))
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


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root is denied nothing, so it is somebody else for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    ("denied", "mode"), [(".", 0), (".", 0o600), ("manifest.json", 0), ("journal.jsonl", 0)]
)
def test_a_denied_folder_is_a_sentence(
    tmp_path: Path, capsys: Capture, denied: str, mode: int
) -> None:
    run = write_run(tmp_path / "run", [True], [1.0])
    commands = (["compare", str(run), str(run)], ["report", str(run), "-o", str(run / "page.html")])
    for command in commands:
        main(command)  # so that nothing is left to be imported
    capsys.readouterr()
    let_everybody_through(tmp_path)
    (run / denied).chmod(mode)
    with as_nobody():
        codes = [main(command) for command in commands]
        with pytest.raises(ArcherError, match="Permission denied"):
            RunFolder(run, {}, {})
    (run / denied).chmod(0o700)
    said = capsys.readouterr().err.splitlines()
    assert codes == [2, 2], said
    assert len(said) == 2
    assert all(line.startswith("archer: ") and "Permission denied" in line for line in said)


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def without_end(path: Path) -> None:
    path.symlink_to("/dev/zero")


def very_large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


# what stands in the place of a file: (how it is made, what the refusal says)
PLACES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a pipe": (a_pipe, "not a regular file"),
    "a file without end": (without_end, "not a regular file"),
    "a file of a terabyte, with nothing in it": (very_large, "larger than 1024 MiB"),
    "a folder": (Path.mkdir, "not a regular file"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["manifest.json", "journal.jsonl"])
def test_what_could_be_read_without_end_is_refused(
    tmp_path: Path, capsys: Capture, name: str, place: str
) -> None:
    run = write_folder(tmp_path / "run")
    make, said = PLACES[place]
    (run / name).unlink()
    make(run / name)
    assert main(["compare", str(run), str(run)]) == 2
    assert said in capsys.readouterr().err
    with pytest.raises(ArcherError, match=said):
        RunFolder(run, IDENTITY, {})


def test_a_journal_that_is_a_pipe_is_not_begun(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    a_pipe(tmp_path / "run" / "journal.jsonl")
    with pytest.raises(ArcherError, match="not a regular file"):
        RunFolder(tmp_path / "run", {}, {})


@pytest.mark.parametrize(
    "name", ["lock", "manifest.json.new", "journal.jsonl.torn", "summary.json.new", "traces"]
)
def test_a_link_in_a_run_folder_leads_to_no_other_file(tmp_path: Path, name: str) -> None:
    """A folder of somebody else may hold links to files that only its reader can write."""
    mine = tmp_path / "mine"
    mine.write_text("precious")
    run = write_folder(tmp_path / "run")
    with (run / "journal.jsonl").open("ab") as journal:
        journal.write(b"torn")
    (run / name).symlink_to(mine)
    with pytest.raises(DiskFault, match=r"could not be written"):
        use(run)
    assert mine.read_text() == "precious"


@pytest.mark.parametrize("name", ["summary.json.new", "lock"])
def test_a_pipe_in_a_run_folder_keeps_nobody_waiting(tmp_path: Path, name: str) -> None:
    run = write_folder(tmp_path / "run")
    a_pipe(run / name)
    with contextlib.suppress(ArcherError):
        use(run)


def use(run: Path) -> None:
    """Everything that a run writes."""
    with RunFolder(run, IDENTITY, {}) as folder:
        folder.traces(["0"])
        replace_json(run / "manifest.json", HELD)
        replace_json(run / "summary.json", {})
