"""Run folders that the operating system denies, or that hold no ordinary files: a sentence, no traceback."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from archer.cli import main
from archer.errors import ArcherError
from archer.files import replace_json
from archer.runs.faults import DiskFault
from archer.runs.folder import RunFolder
from conftest import let_everybody_through
from runs.test_comparison import write_run
from runs.test_damage import IDENTITY, MANIFEST_HELD, RECORDS, made

NOBODY = 65534


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
    tmp_path: Path, capsys: pytest.CaptureFixture[str], denied: str, mode: int
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
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, place: str
) -> None:
    run = made(tmp_path / "run", RECORDS)
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
    run = made(tmp_path / "run", RECORDS)
    with (run / "journal.jsonl").open("ab") as journal:
        journal.write(b"torn")
    (run / name).symlink_to(mine)
    with pytest.raises(DiskFault, match=r"could not be written"):
        use(run)
    assert mine.read_text() == "precious"


@pytest.mark.parametrize("name", ["summary.json.new", "lock"])
def test_a_pipe_in_a_run_folder_keeps_nobody_waiting(tmp_path: Path, name: str) -> None:
    run = made(tmp_path / "run", RECORDS)
    a_pipe(run / name)
    with contextlib.suppress(ArcherError):
        use(run)


def use(run: Path) -> None:
    """Everything that a run writes."""
    with RunFolder(run, IDENTITY, {}) as folder:
        folder.traces(["0"])
        replace_json(run / "manifest.json", MANIFEST_HELD)
        replace_json(run / "summary.json", {})
