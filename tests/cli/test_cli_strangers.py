"""What the command line refuses, and what it shows of texts by strangers."""

import errno
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from cyclopts import App

from archer.cli import TERMINATED, app, main, output
from archer.cli.numbers import EXACT
from archer.errors import one_line
from archer.judge import Verdict
from archer.pages.tables import Column, Table
from archer.runs.folder import MANIFEST, SUMMARY
from archer.tasks import grading
from archer.tasks.grading import GradedCompletion, GradingReport
from support.run_folders import SUMMARY_TEXT, rewrite_journal, write_run

Capture = pytest.CaptureFixture[str]
NUMBERS = ("2.7", "1e3", "0x10", "1_000", "", " 3", "nan", "inf", "-", "2,0", "٣", "9" * 30)


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_are_taken_as_written_or_not_at_all(capsys: Capture, number: str) -> None:
    """That every option of a whole number has such a converter, a test below says."""
    assert main(["eval", "pocket", f"--limit={number}"]) == 2
    assert "whole number" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["generate", "hi", "--threads", "100000"], "from 1 to 512"),
        (["generate", "hi", "--threads", "0"], "from 1 to 512"),
        (["grade", "pocket", "--reference", "--workers", "100000"], "from 1 to 512"),
        (["eval", "pocket", "--workers", "100000"], "from 1 to 512"),
        (["eval", "pocket", "--workers", "0"], "from 1 to 512"),
        (["study", "main", "--workers", "513"], "from 1 to 512"),
        (["eval", "pocket", "--subset", ","], "A subset is ids"),
        (["eval", "pocket", "--subset", ""], "A subset is ids"),
        (["eval", "pocket", "--subset", " , ,"], "A subset is ids"),
        (["generate", "hi", "--revision", "abc"], "pocket is bundled and has no revisions"),
        (["eval", "pocket", "--revision", "main"], "pocket is bundled and has no revisions"),
    ],
)
def test_what_cannot_be_meant_is_refused(capsys: Capture, command: list[str], said: str) -> None:
    assert main(command) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == ""


def commands(made: App, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    """Every command and those inside it, as cyclopts knows them."""
    for name in made:
        if not name.startswith("-"):
            yield from commands(made[name], (*path, name))
    if made.default_command is not None:
        yield path, made


def test_no_command_takes_a_whole_number_but_as_written() -> None:
    """cyclopts itself turns 2.7 into 3 where a parameter is an int."""
    numbers, loose = 0, []
    for path, made in commands(app()):
        for argument in made.assemble_argument_collection():
            kinds = {argument.hint, *get_args(argument.hint)}
            if int in kinds:
                numbers += 1
                if argument.parameter.converter not in EXACT:
                    loose.append((*path, argument.name))
    assert numbers > 50
    assert loose == []


@pytest.mark.parametrize("denied", ["run", "run/manifest.json"])
def test_a_file_that_the_system_denies_is_a_sentence(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, denied: str
) -> None:
    """Whichever command meets it, also where nobody thought of it."""

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", denied)

    monkeypatch.setattr(grading, "grade", refuse)
    assert main(["grade", "pocket", "--reference", "--limit", "1"]) == 4
    assert capsys.readouterr().err == f"archer: {denied} cannot be used (Permission denied).\n"


FOREIGN = (
    "ValueError: wrong\n43  pass  0.001 s",
    "\r43  pass",
    "\x1b[1A\x1b[2K43  pass",
    "\u202e ssap",
    "a\u2028b\u2029c\x85d\x0be\x0cf",
    "\x9b1A",
    "tab\there",
    "\udc80",
)


@pytest.mark.parametrize("text", FOREIGN)
def test_a_line_is_one_line_without_steering(capsys: Capture, text: str) -> None:
    output.write_line(f"1  fail  {text}")
    (line, rest) = capsys.readouterr().out.split("\n")
    assert rest == ""
    assert line.startswith("1  fail")
    assert len(line.splitlines()) == 1
    assert all(c.isprintable() for c in line)


@pytest.mark.parametrize("text", FOREIGN)
def test_a_reason_cannot_look_like_another_row(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    failed = Verdict("fail", text)

    def graded(*_: object) -> GradingReport:
        return GradingReport(
            "pocket", [GradedCompletion("1", failed, failed)], "A", {"metric": "pass@1"}
        )

    monkeypatch.setattr(grading, "grade", graded)
    assert main(["grade", "pocket", "--reference", "--limit", "1"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if "pass  " in line[:12]]
    assert rows == []


@pytest.mark.parametrize("blank", [" ", "\u00a0"])
def test_a_reason_that_is_broken_does_not_look_like_another_row(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, blank: str
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(output, "columns_of", lambda stream: 40)
    for padding in range(30, 60):
        output.write_line(
            f"1  fail  {'x' * padding}{blank}43{blank}{blank}pass{blank}" * 2, hanging=4
        )
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith(("1  fail", "    ")) for line in lines)


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("text", FOREIGN)
def test_a_cell_of_a_grid_or_table_cannot_look_like_another_row(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, text: str, terminal: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")  # no bold heads
    output.write_grid(("task", text), [("1", text), (text, "fail")])
    lines = capsys.readouterr().out.removesuffix("\n").split("\n")
    assert len(lines) == 3
    output.write_table(Table(text, (Column("task"), Column(text)), [("1", text)], (text,)))
    lines += capsys.readouterr().out.split("\n")
    assert all(character.isprintable() for line in lines for character in line)
    assert not any(line.lstrip("| ").startswith("43") for line in lines)


@pytest.mark.parametrize("text", FOREIGN)
def test_an_error_that_nobody_foresaw_is_shown_without_steering(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Its words may be a stranger's, and those of the error before it."""

    def fail(*_: object) -> GradingReport:
        try:
            raise KeyError(text)
        except KeyError as error:
            raise ValueError(text) from error

    monkeypatch.setattr(grading, "grade", fail)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    with pytest.raises(ValueError, match=re.escape(text)) as caught:
        main(["grade", "pocket", "--reference", "--limit", "1"])
    sys.excepthook(caught.type, caught.value, caught.tb)
    lines = capsys.readouterr().err.removesuffix("\n").split("\n")
    assert len([line for line in lines if line.startswith(("KeyError: ", "ValueError: "))]) == 2
    assert all(line.startswith((" ", "Traceback", "KeyError", "ValueError")) for line in lines)
    assert all(character.isprintable() for line in lines for character in line)


STRANGE = "x\x1b[2J\n43  pass\r\u202e\x9b1A\u2028</script><img src=x onerror=alert(1)>[red]b[/red]"


def strange_run(folder: Path) -> Path:
    """A run by a stranger: whatever is a text in it is hostile, and so is the name of its folder."""
    run = write_run(folder, [True, False], [1.0, 2.0])
    manifest = json.loads((run / MANIFEST).read_text())
    identity = manifest["identity"]
    identity["task"]["name"] = identity["archer"] = STRANGE
    identity["method"] |= {
        "name": STRANGE,
        "settings": identity["method"]["settings"] | {STRANGE: STRANGE},
    }
    identity["model"] |= {"dtype": STRANGE, "device": STRANGE, "files": {STRANGE: STRANGE}}
    manifest["circumstances"]["platform"] = f"{STRANGE}{folder.name}"
    (run / MANIFEST).write_text(json.dumps(manifest))
    (run / SUMMARY).write_text(
        json.dumps(json.loads(SUMMARY_TEXT) | {"task": STRANGE, "method": STRANGE})
    )

    def strange(record: dict[str, Any]) -> dict[str, Any]:
        text = "completion" if "completion" in record else "tier"
        return record | {"id": f"{record['id']}{STRANGE}", text: STRANGE}

    rewrite_journal(run, strange)
    return run


@pytest.mark.parametrize("terminal", [True, False])
def test_no_text_of_a_strangers_run_steers_a_terminal(
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    terminal: bool,
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.setenv("TERM", "dumb")  # no bold heads
    first, second = strange_run(tmp_path / "a"), strange_run(tmp_path / "b\x1b[2J\n43  pass")
    missing = tmp_path / "none\x1b[2J\n43  pass"
    for runs in ((first, second), (second, first), (first, missing)):
        assert main(["compare", *map(str, runs)]) == (2 if missing in runs else 0)
    assert main(["view", str(missing)]) == 2
    shown = capsys.readouterr()
    for line in f"{shown.out}{shown.err}".split("\n"):
        assert all(character.isprintable() for character in line)
        assert not line.lstrip("| ").startswith("43")


def test_no_text_of_a_strangers_run_steers_a_page(tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("matplotlib", reason="figures come with the extra [report]")
    page = tmp_path / "page.html"
    assert main(["report", str(strange_run(tmp_path / "a")), "-o", str(page)]) == 0
    capsys.readouterr()
    html = page.read_text(encoding="utf-8")
    assert "onerror" in html
    assert "<img src=x" not in html
    assert all(character.isprintable() or character in "\n\t" for character in html)


def test_ordinary_text_is_shown_as_it_is() -> None:
    text = "naïve 中文 🙂 50 % \u00a0 \\boxed{1}"
    assert one_line(text) == text
    assert one_line("a\nb\tc\r\n") == "a\\nb\\tc\\r\\n"


def test_sigterm_ends_a_command_in_order(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    def slow(*_: object) -> GradingReport:
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
        try:
            time.sleep(30)
        finally:
            closed.append(True)
        raise AssertionError

    monkeypatch.setattr(grading, "grade", slow)
    before = signal.getsignal(signal.SIGTERM)
    assert main(["grade", "pocket", "--reference", "--limit", "1"]) == TERMINATED
    assert closed == [True]
    assert "terminated" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before
