"""`archer report`: runs of several methods and tasks as one page."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archer.cli import main
from archer.model import Model
from archer.runs import report as runs_report
from archer.runs.comparison import open_run
from archer.runs.evaluation import evaluate
from archer.runs.folder import Recorded
from archer.runs.report import runs_page
from archer.runs.selection import Selection
from archer_studies.paper.main import score_in_paper
from runs.toy import Quiet, toy_model, toy_request

pytest.importorskip("matplotlib", reason="figures come with the extra [report]")
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("report")
    model: Model = toy_model(folder / "model")
    asked = {
        "first": toy_request(model, traces=1, selection=Selection(limit=3)),
        "second": toy_request(
            model, method="saber", settings={"length": 6}, traces=1, selection=Selection(limit=3)
        ),
        "shorter": toy_request(model, settings={"length": 4}, selection=Selection(limit=3)),
    }
    for name, request in asked.items():
        evaluate(request, folder / "all" / name, Quiet())
    return {name: folder / "all" / name for name in asked}


def test_runs_become_a_page(runs: dict[str, Path], tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "page.html"
    assert main(["report", *map(str, runs.values()), "-o", str(page)]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    text = page.read_text(encoding="utf-8")
    assert text.count("llada-confidence") >= 2
    assert "Against llada-confidence" in text
    assert "cannot be compared" in text
    assert re.search(r"Problem 1: llada-confidence length=6 .* and saber", text)
    assert "<svg" in text
    assert re.search(
        r"<h1>llada-confidence length=6 [^<]* against saber against [^<]* on \S+</h1>", text
    )
    assert '<p class="message">' in text
    assert "Made by: archer report" in text
    assert "problem by problem" in text


def test_many_verdicts_are_closed_and_stand_below_the_players(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made() -> str:
        found = [open_run(runs[name]) for name in ("first", "second")]
        return runs_page([replace(each, recorded=renamed(each.recorded)) for each in found])

    page = made()
    assert page.index('class="trajectory') < page.index("problem by problem</h2>")
    rows = page[page.index("problem by problem</h2>") :]
    places = [rows.index(f">{key}<") for key in ("0", "2", "10")]
    assert places == sorted(places)
    assert '<details class="folded">' not in page
    monkeypatch.setattr(runs_report, "MOST_OPEN", 2)
    assert '<details class="folded">' in made()


def renamed(recorded: Recorded) -> Recorded:
    """Problem 1 as problem 10, which as text stands before 2."""

    def moved(lines: Any) -> Any:
        return {{"1": "10"}.get(key, key): line for key, line in lines.items()}

    return replace(recorded, samples=moved(recorded.samples), grades=moved(recorded.grades))


def test_one_problem_has_no_interval(tmp_path: Path) -> None:
    request = toy_request(toy_model(tmp_path / "model"), selection=Selection(limit=1))
    evaluate(request, tmp_path / "run", Quiet())
    page = runs_page([open_run(tmp_path / "run")])
    assert "pass@1 (%)" in page
    assert not re.search(r"\d \[\d", page)


@pytest.mark.parametrize(
    ("model", "architecture", "task", "shown"),
    [
        ("GSAI-ML/LLaDA-8B-Instruct", "LLaDAModelLM", "mbpp", True),
        ("checkpoints/llada-8b-instruct", "LLaDAModelLM", "mbpp", True),
        ("GSAI-ML/LLaDA-8B-Base", "LLaDAModelLM", "mbpp", False),
        ("toy", "LLaDAModelLM", "mbpp", False),
        ("GSAI-ML/LLaDA-8B-Instruct", "DreamModel", "mbpp", False),
        ("GSAI-ML/LLaDA-8B-Instruct", "LLaDAModelLM", "gsm8k", False),
    ],
)
def test_the_papers_scores_stand_beside_runs_of_its_model_alone(
    runs: dict[str, Path], model: str, architecture: str, task: str, shown: bool
) -> None:
    run = open_run(runs["first"])
    identity = {
        **run.identity,
        "task": {"name": task},
        "model": {**run.identity["model"], "architecture": architecture},
    }
    circumstances = {**run.circumstances, "model": model}
    named = replace(run, identity=identity, circumstances=circumstances)
    page = runs_page([named], published=score_in_paper)
    assert (">43.6<" in page) == shown
    assert ("beside runs of the model that it measured" in page) == shown


def test_a_folder_of_runs_is_taken_apart(
    runs: dict[str, Path], tmp_path: Path, capsys: Capture
) -> None:
    one, other = tmp_path / "one.html", tmp_path / "other.html"
    assert main(["report", str(runs["first"].parent), "-o", str(one)]) == 0
    assert main(["report", *map(str, sorted(runs.values())), "-o", str(other)]) == 0
    without_command = [re.sub(r"Made by: .*? -o ", "", page.read_text()) for page in (one, other)]
    made = [
        text.replace(str(page), "")
        for text, page in zip(without_command, (one, other), strict=True)
    ]
    assert made[0] == made[1]


def test_what_is_no_run_is_refused(tmp_path: Path, capsys: Capture) -> None:
    assert main(["report"]) == 2
    assert "at least one run folder" in capsys.readouterr().err
    assert main(["report", str(tmp_path)]) == 2
    assert "is not a run folder" in capsys.readouterr().err
