"""`archer tune`, in process: a search on a tiny task, what it leaves behind, and what is refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archer.cli import main
from archer.tasks import TASKS
from support.folders import make_llada
from tune.tiny import METHODS, TinyAlone, TinyDozen, TinySealed, TinyTest

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def tasks() -> Iterator[None]:
    mine = {each.name: each for each in (TinyDozen, TinyTest, TinyAlone, TinySealed)}
    TASKS.update(mine)
    yield
    for name in mine:
        del TASKS[name]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_llada(tmp_path_factory.mktemp("tune") / "model", tokenizer=True))


def asked(model: str, out: Path, task: str = "tiny-test", *more: str) -> list[str]:
    candidates = [word for method in METHODS[:3] for word in ("--candidate", method)]
    return ["tune", task, "--model", model, "--out", str(out), *candidates, *more]


def tuned(capsys: Capture, arguments: list[str], code: int = 0) -> tuple[dict[str, Any], str]:
    assert main([*arguments, "--json"]) == code
    shown = capsys.readouterr()
    return json.loads(shown.out), shown.err


def test_a_search_leaves_tables_a_figure_and_a_preset_that_eval_takes(
    model: str, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "search"
    found, told = tuned(capsys, asked(model, out))
    assert found["settings"]["task"] == "tiny-dozen"
    assert found["n"] == 12
    assert told.startswith("archer: calibration: 4 methods, 2 more problems.")
    files = {path.name for path in out.iterdir()}
    assert {"tune.json", "tune.md", "tune.csv", "tune.tex", "preset.json"} <= files
    assert json.loads((out / "tune.json").read_text()) == found
    preset = str(out / "preset.json")
    scored = ["eval", "tiny-test", "--model", model, "--preset", preset, "--json"]
    assert main([*scored, "--out", str(tmp_path / "run")]) == 0
    run = json.loads(capsys.readouterr().out)
    (row,) = (row for row in found["rows"] if row["chosen"])
    assert run["n"] == row["n"]
    assert 100 * run["accuracy"] == pytest.approx(row["base"])


@pytest.mark.slow
def test_workers_find_what_one_process_finds(model: str, tmp_path: Path, capsys: Capture) -> None:
    alone, _ = tuned(capsys, asked(model, tmp_path / "alone"))
    together, _ = tuned(capsys, asked(model, tmp_path / "together", "tiny-test", "--workers", "2"))
    for found in (alone, together):
        for row in found["rows"]:
            del row["seconds"]
    assert together == alone
    assert json.loads((tmp_path / "together" / "calibration.json").read_text())["workers"] == 2


@pytest.mark.slow
def test_the_same_folder_answers_other_goals_without_decoding(
    model: str, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "search"
    first, _ = tuned(capsys, asked(model, out))
    before = sorted(path.stat().st_mtime_ns for path in out.rglob("journal.jsonl"))
    costs = sorted(row["cost"] for row in first["rows"] if row["finalist"])
    assert main(asked(model, out, "tiny-test", "--at-most", str(costs[0] + 1e-9))) == 0
    shown = capsys.readouterr().out
    assert "the best at a cost of at most" in shown
    assert f"archer eval tiny-test --preset {out / 'preset.json'}" in shown
    found, _ = tuned(capsys, asked(model, out, "tiny-test", "--at-most", "1e-9"), code=1)
    assert found["choice"]["method"] is None
    assert not (out / "preset.json").exists()
    assert main(asked(model, out, "tiny-test", "--at-most", "1e-9")) == 1
    assert "No method reaches the goal" in capsys.readouterr().err
    assert sorted(path.stat().st_mtime_ns for path in out.rglob("journal.jsonl")) == before


@pytest.mark.slow
def test_a_share_of_a_task_without_a_dev_split_may_be_set_aside(
    model: str, tmp_path: Path, capsys: Capture
) -> None:
    arguments = asked(model, tmp_path / "search", "tiny-alone", "--shard", "3/3")
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "n = 4" in shown
    assert "archer eval tiny-alone --shard 1/3 --preset" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tiny-alone",), "tiny-alone has no dev split"),
        (("tiny-sealed",), "kept for confirmations"),
        (("tiny-sealed", "--shard", "1/4"), "kept for confirmations"),
        (("pocket-confirm-long",), "kept for confirmations"),
        (("tiny-tset",), "Did you mean 'tiny-test'?"),
        (
            ("tiny-test", "--budget", "0"),
            "for --budget: give one number above 0 and below infinity, not 0.",
        ),
        (("tiny-test", "--budget", "1,2"), "give one number above 0 and below infinity, not 1,2."),
        (("tiny-test", "--budget", "inf"), "give one number above 0 and below infinity, not inf."),
        (
            ("tiny-test", "--budget", "nan"),
            "for --budget: give one number above 0 and below infinity, not nan.",
        ),
        (("tiny-test", "--problems", "0"), "for --problems: give a whole number of at least 1"),
        (("tiny-test", "--problems", "2"), "more than 2 are needed"),
        (
            ("tiny-test", "--workers", "0"),
            "for --workers: give a whole number from 1 to 512",
        ),
        (("tiny-test", "--at-least", "0.7"), "must be in percent"),
        (("tiny-test", "--at-least", "70", "--at-most", "1"), "a cost, not both"),
        (("tiny-test", "--candidate", "nonsense"), "There is no method 'nonsense'"),
        (("tiny-test", "--candidate", "saber"), "only one candidate"),
    ],
)
def test_what_cannot_be_searched_is_refused(
    arguments: tuple[str, ...], message: str, model: str, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "search"
    assert main(["tune", *arguments, "--model", model, "--out", str(out)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert not out.exists()
