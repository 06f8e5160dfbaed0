"""`archer eval`, in process: a run over real problems, its resume, and everything that is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from archer.cli import main
from archer.runs.evaluation import Grader
from archer.runs.folder import JOURNAL
from archer.tasks import TASKS
from conftest import shared
from runs.toy import results, untimed
from support.folders import make_llada

Capture = pytest.CaptureFixture[str]
PROBLEMS = 20


@pytest.fixture(autouse=True)
def data(monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = shared("data")
    monkeypatch.setenv("ARCHER_SHARED", str(folder.parent))
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("eval") / "model"
    return str(make_llada(folder, tokenizer=True, max_sequence_length=4096))


def evaluated(capsys: Capture, *arguments: str, code: int = 0) -> dict[str, Any]:
    assert main(["eval", *arguments, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: Capture, *arguments: str, code: int = 2) -> str:
    assert main(["eval", *arguments]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("archer: ")
    return shown.err


def test_twenty_problems_end_to_end(model: str, tmp_path: Path, capsys: Capture) -> None:
    asked = ("humaneval", "--model", model, "--limit", str(PROBLEMS), "--length", "16")
    out = tmp_path / "runs" / "a"
    found = evaluated(capsys, *asked, "--out", str(out))
    assert found["task"] == "humaneval"
    assert found["n"] == found["graded"] == PROBLEMS
    assert found["complete"] is True
    assert found["pass@1"] == found["pass@1_extended"] == 0.0
    assert found["pass@1_interval"][0] == 0.0
    assert (
        found["full_passes"] + found["cached_passes"] + found["reused_passes"] == found["updates"]
    )
    assert found == json.loads((out / "summary.json").read_text())
    first = json.loads((out / JOURNAL).read_text().splitlines()[0])
    assert first["id"] == "HumanEval/0"
    before = (out / JOURNAL).read_bytes()
    assert evaluated(capsys, *asked, "--out", str(out)) == found
    assert (out / JOURNAL).read_bytes() == before
    assert main(["eval", *asked, "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "pass@1             0.0%" in shown
    assert "refresh fraction" in shown
    assert "method.settings.radius" in refused(capsys, *asked, "--out", str(out), "--radius", "3")


def test_several_tasks_have_a_folder_each(model: str, tmp_path: Path, capsys: Capture) -> None:
    asked = ("mbpp", "pubmedqa", "--model", model, "--limit", "2", "--length", "8")
    found = evaluated(capsys, *asked, "--out", str(tmp_path / "all"), "--method", "saber")
    assert set(found["tasks"]) == {"mbpp", "pubmedqa"}
    assert found["tasks"]["mbpp"]["pass@1"] == 0.0
    assert found["tasks"]["pubmedqa"]["accuracy"] == 0.0
    assert "macro_f1" in found["tasks"]["pubmedqa"]["measures"]
    whole = json.loads((tmp_path / "all" / "summary.json").read_text())
    assert whole == {"complete": True, **found}
    assert (tmp_path / "all" / "mbpp" / JOURNAL).is_file()


def test_every_rule_for_a_gap_is_a_column(tmp_path: Path, capsys: Capture) -> None:
    asked = ("pocket-infill-line", "--limit", "2", "--length", "6", "--out", str(tmp_path / "runs"))
    assert main(["eval", *asked, "--gap", "oracle", "--gap", "fixed"]) == 0
    head, names, *rows = capsys.readouterr().out.splitlines()
    assert head == "pocket-infill-line by archer-doubt: 2 gaps, intervals by function"
    assert names.split() == ["oracle", "fixed"]
    assert [row.split()[0] for row in rows[:3]] == ["pass@1", "pass@1_extended", "exact_match"]
    assert rows[3].split() == ["tokens", "per", "gap", "13.0", "6.0"]
    found = json.loads((tmp_path / "runs" / "summary.json").read_text())
    assert list(found["tasks"]) == ["pocket-infill-line-oracle", "pocket-infill-line-fixed"]
    assert "None of the tasks has gaps" in refused(capsys, "pocket-dev", "--gap", "oracle")
    assert "The length of a gap is oracle" in refused(capsys, *asked, "--gap", "long")


def test_runs_have_a_folder_by_default(
    model: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = f"mbpp --model {model} --subset 3 --length 8 --method saber+age:4"
    evaluated(capsys, *asked.split())
    assert (tmp_path / "runs" / "mbpp-saber-age-4" / JOURNAL).is_file()


def test_an_unjudged_completion_makes_the_exit_code_1(
    model: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Grader, "record", lambda *_: None)
    asked = f"mbpp --model {model} --limit 1 --length 8 --out {tmp_path / 'a'}".split()
    assert main(["eval", *asked]) == 1
    shown = capsys.readouterr()
    assert "no score yet" in shown.out
    assert "1 completions could not be judged (2)" in shown.err


def test_progress_is_told_where_there_is_no_terminal(
    model: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archer.terminal.meters.BETWEEN_LINES", 0.0)
    asked = f"mbpp --model {model} --limit 2 --length 8 --out {tmp_path / 'a'}".split()
    assert main(["eval", *asked]) == 0
    assert "mbpp: 2 of 2" in capsys.readouterr().err
    assert main(["eval", *asked]) == 0
    assert "mbpp: resuming, 2 of 2 already done." in capsys.readouterr().err


def test_unknown_tasks_are_listed(capsys: Capture) -> None:
    assert ", ".join(TASKS) in refused(capsys, "chess")
    assert ", ".join(TASKS) in refused(capsys)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("mbpp", "mbpp"), "named twice"),
        (("mbpp", "--batch", "0"), "The batch must be a number above 0"),
        (("mbpp", "--traces", "-1"), "The number of traces must be at least 0"),
        (("mbpp", "--traces", "1", "--batch", "2"), "one problem at a time"),
        (("mbpp", "--limit", "0"), "The limit must be a number above 0"),
        (("mbpp", "--shard", "x"), "A shard is a share"),
        (("mbpp", "--subset", "nine"), "no problem 'nine'"),
        (("mbpp", "--method", "magic"), "magic"),
        (("mbpp", "--radius", "-1"), "radius"),
        (
            ("mbpp", "--workers", "0"),
            "for --workers: give a whole number from 1 to 512",
        ),
        (("mbpp", "--workers", "2", "--shards", "2"), "works with neither --workers nor --ray"),
        (("mbpp", "--workers", "2", "--threads", "0"), "--threads must be a whole number"),
        (("mbpp", "--workers", "2", "--device", "abacus"), "'abacus'"),
    ],
)
def test_bad_requests_are_refused_before_a_model_is_loaded(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.setattr(
        "archer.model.load_here", lambda *_, **__: pytest.fail("a model was loaded")
    )
    assert sentence in refused(capsys, *arguments, "--model", "anything")


def test_missing_data_are_named(capsys: Capture, tmp_path: Path) -> None:
    assert "is missing" in refused(capsys, "mbpp", "--model", "x", "--data", str(tmp_path))


def test_a_run_folder_in_use_is_exit_code_3(model: str, tmp_path: Path, capsys: Capture) -> None:
    from archer.runs.folder import Lock

    lock = Lock(tmp_path)
    asked = ("mbpp", "--model", model, "--limit", "1", "--length", "8", "--out", str(tmp_path))
    assert "being written by another run" in refused(capsys, *asked, code=3)
    lock.release()


@pytest.mark.slow
def test_processes_give_the_same_scores(model: str, tmp_path: Path, capsys: Capture) -> None:
    asked = ("humaneval", "--model", model, "--limit", "3", "--length", "8")
    here = evaluated(capsys, *asked, "--out", str(tmp_path / "here"))
    there = evaluated(capsys, *asked, "--out", str(tmp_path / "there"), "--workers", "2")
    assert untimed(there) == untimed(here)
    assert results(tmp_path / "there") == results(tmp_path / "here")
