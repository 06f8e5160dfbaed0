"""Commands that new users try first, in a terminal of 80 columns: nothing is cut, broken or left behind."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from archer.cli import COMMANDS, app, main
from archer.cli.output import allotted
from archer.studies.registry import STUDIES
from archer.tasks import TASKS
from terminals import environment, in_terminal, plain

Capture = pytest.CaptureFixture[str]
PROBLEM = """\
Write a function to count the numbers in nums that are greater than 5.
assert solve([1, 7, 9]) == 2
assert solve([2]) == 0
def solve(nums):"""


def said(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "archer", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )


def test_python_dash_m_is_the_command() -> None:
    done = said("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout[0].isdigit()
    assert said("nothing").returncode == 2


@pytest.mark.parametrize(
    "arguments", [["methods"], ["methods", "archer"], ["methods", "--matrix"], ["tasks"], ["study"]]
)
def test_lists_fit_80_columns_without_a_broken_word(arguments: list[str], capsys: Capture) -> None:
    """Every word that the terminal shows is a word that a pipe gets."""
    shown = plain(in_terminal(arguments))
    assert max(map(cell_len, shown.splitlines())) <= 80
    assert main(arguments) == 0
    piped = capsys.readouterr().out
    assert set(shown.split()) <= {*piped.split(), *piped.replace("|", " ").split()}
    assert "| ---" not in shown


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 40)), min_size=1), st.integers(0, 200))
def test_columns_share_the_room_there_is(wants: list[tuple[int, int]], room: int) -> None:
    least = [each for each, _ in wants]
    most = [each + more for each, more in wants]
    widths = allotted(least, most, room)
    if not widths:
        assert sum(least) > room
        return
    assert all(low <= width <= high for low, width, high in zip(least, widths, most, strict=True))
    assert sum(widths) == min(room, sum(most))


def test_a_refusal_is_broken_between_words(capsys: Capture) -> None:
    shown = plain(in_terminal(["generate", "x", "--method", "sabre"], code=2))
    assert max(map(cell_len, shown.splitlines())) <= 80
    assert main(["generate", "x", "--method", "sabre"]) == 2
    assert shown.split() == capsys.readouterr().err.split()


def test_a_study_without_a_name_lists_them(capsys: Capture) -> None:
    assert main(["study"]) == 0
    out = capsys.readouterr().out
    assert all(each.title in out for each in STUDIES.values())
    assert main(["study", "--json"]) == 0


def test_the_tasks_are_listed(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARCHER_SHARED", raising=False)
    assert main(["tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1 : 1 + len(TASKS)]] == list(TASKS)
    assert "bundled" in next(line for line in lines if line.startswith("pocket "))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_every_command(shell: str, capsys: Capture) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS)
    assert "--radius" in script


def test_bash_understands_its_script() -> None:
    script = app().generate_completion(shell="bash")
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_help_tells_the_defaults(capsys: Capture) -> None:
    assert main(["generate", "--help"]) == 0
    out = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for told in ("[default: archer]", "[default: pocket]", "[default: 8]", "else 256]"):
        assert told in out
    assert "[default: False]" not in out


@pytest.mark.parametrize("arguments", [["-"], ["--prompt-file", "-"]])
def test_a_prompt_from_stdin(arguments: list[str]) -> None:
    done = said("generate", *arguments, stdin=PROBLEM)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == said("generate", PROBLEM).stdout
    assert "return" in done.stdout


def test_pocket_says_what_it_can_do(capsys: Capture) -> None:
    assert main(["generate", "Write a haiku about rollback.", "--length", "8"]) == 0
    assert "only writes the body of a small Python function" in capsys.readouterr().err
    assert main(["generate", "Write a haiku about rollback.", "--length", "8", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["generate", PROBLEM, "--length", "8"]) == 0
    assert capsys.readouterr().err == ""


def test_ctrl_c_leaves_one_bar_and_the_command_that_goes_on(tmp_path: Path) -> None:
    arguments = ["eval", "pocket-dev", "--limit", "100", "--out", "run"]
    written = in_terminal(
        arguments,
        columns=120,
        folder=tmp_path,
        interrupt=lambda text: re.search(r" [1-9]\d?/100", plain(text)) is not None,
        code=130,
    )
    assert written.count("\x1b[?25h") >= written.count("\x1b[?25l") > 0, "the cursor is back"
    *_, bar, last = plain(written).rstrip().split("\n")
    assert "/100" in bar
    assert last == (
        "archer: interrupted. This goes on where it stopped: archer eval pocket-dev --limit 100 --out run"
    )


def test_the_whole_of_a_long_answer_stays_in_the_terminal() -> None:
    """The live view shows a window of it; at the end all of it is there to scroll back to."""
    written = in_terminal(
        ["generate", PROBLEM, "--method", "confidence", "--set", "eos=logits"], columns=40, rows=10
    )
    left = plain(written.rpartition("\x1b[?25h")[2])
    assert left.count("\n") > 10 or "return" in left
    assert left.strip().split("\n")[0].strip(), "its first line"
    assert max(map(len, left.splitlines())) <= 200


def test_runs_of_end_marks_are_one_mark() -> None:
    written = plain(in_terminal(["generate", PROBLEM]))
    assert "∎" in written
    assert "∎∎" not in written
