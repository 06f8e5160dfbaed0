"""What people try in a shell because other tools do it: samples, Ctrl-C at any time, words at once."""

import json
import resource
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from archer.__main__ import INTERRUPTED
from archer.__main__ import main as started
from archer.cli import main
from archer.model import load
from archer.terminal import meters
from archer_studies.registry import find_study
from archer_studies.study import FEW
from conftest import REPOSITORY
from support.processes import ran
from support.run_folders import write_run
from support.terminals import PROBLEM, environment, in_terminal

Capture = pytest.CaptureFixture[str]


def test_habit_of_drawing_several_answers(tmp_path: Path, capsys: Capture) -> None:
    drawn = load("pocket", device="cpu").generate(
        PROBLEM, n=3, temperature=0.8, seed=5, least=3, length=16
    )
    asked = ["--temperature", "0.8", "--seed", "5", "--least", "3", "--length", "16"]
    for spelled in ("--samples", "--n"):
        out = tmp_path / f"answers{spelled}.jsonl"
        command = ["generate", PROBLEM, spelled, "3", *asked, "--device", "cpu", "--out", str(out)]
        assert main(command) == 0
        assert capsys.readouterr().out == "".join(f"{each.text}\n" for each in drawn)
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        for at, (line, done) in enumerate(zip(lines, drawn, strict=True)):
            made = {"prompt": PROBLEM, "sample": at, "seed": 5, "method": "archer-doubt"}
            made |= {"model": "pocket", "dtype": "float32", "weights_version": 0}
            assert made.items() <= line.items()
            assert line["settings"]["n"] == 3
            assert line["model_digest"] == done.to_dict()["model_digest"]
            assert line["tokens"] == list(done.tokens)


def test_habit_of_wondering_whether_anything_happens() -> None:
    """A line that is there before torch is imported, and gone when there is something to see."""
    written = in_terminal(["generate", PROBLEM, "--length", "8", "--plain"])
    before, _, answer = written.rpartition("\r\x1b[2K")
    assert before.startswith("archer: loading pocket ...")
    assert "loading" not in answer
    assert "return" in answer


@pytest.mark.slow
def test_habit_of_checking_first_takes_twenty_seconds(tmp_path: Path) -> None:
    """In processor time, which the other tests cannot lengthen."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = (sys.executable, "-m", "archer", "doctor", "--selftest", "--device", "cpu")
    done = ran(*command, cwd=tmp_path, env=environment(), timeout=600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "passed: all 3 checks." in done.stdout
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 20


class _Impatient(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "archer.cli":
            raise KeyboardInterrupt
        return None


def test_habit_of_ctrl_c_at_once(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "archer.cli")
    monkeypatch.setattr(sys, "meta_path", [_Impatient(), *sys.meta_path])
    assert started() == INTERRUPTED
    assert capsys.readouterr().err == "archer: interrupted.\n"


def test_habit_of_distrusting_seconds(tmp_path: Path, capsys: Capture) -> None:
    runs = [write_run(tmp_path / name, [True, False], [1.0, 2.0]) for name in "ab"]
    assert main(["compare", *map(str, runs)]) == 0
    said = capsys.readouterr().out
    assert "passes per problem, on any machine: A 1.0 full and 1.0 cached in 1.0 updates, B" in said
    assert "operations per problem: A 99, B 99, 1.00 times those of A" in said


@pytest.mark.parametrize("name", ["main", "radius", "age"])
def test_habit_of_reading_a_winner_out_of_few_problems(name: str) -> None:
    result = json.loads((REPOSITORY / "docs" / "results" / f"{name}.json").read_text())
    few, many = (find_study(name).present({**result, "n": n}) for n in (FEW - 1, FEW))
    assert all("too few to tell" in table.notes[0] for table in few.tables)
    assert not any("too few to tell" in note for table in many.tables for note in table.notes)


def test_habit_of_serving_a_file_of_ones_own(capsys: Capture) -> None:
    assert main(["serve", "--method", "./mine.py:Steady"]) == 2
    assert "a server needs --allow-own-code as well" in capsys.readouterr().err


def test_habit_of_piping_progress_into_a_file(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain lines, one every few seconds, without bars that are drawn over."""
    monkeypatch.setattr(meters, "BETWEEN_LINES", 0.0)
    asked = ["eval", "pocket", "--limit", "2", "--length", "8", "--device", "cpu"]
    assert main([*asked, "--out", str(tmp_path / "run")]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert any("2 of 2" in line for line in lines)
    for line in lines:
        assert line.startswith("archer: ")
        assert line.isprintable()
