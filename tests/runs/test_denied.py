"""Run folders that the operating system denies: a sentence with its reason, never a traceback."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from archer.cli import main
from archer.errors import ArcherError
from archer.runs.folder import RunFolder
from runs.test_comparison import write_run

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
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o111)
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
