"""pocket-sudoku as a task: prompts with gaps, and grids graded by the rules."""

import json
from pathlib import Path

import pytest

import archer
from archer.cli import main
from archer.judge import Verdict
from archer.pocket import grids
from archer.tasks import open_task
from archer.tasks.base import VARIANTS, AnswerTask
from archer.tasks.sources import Data
from archer.tasks.sudoku import PocketSudoku
from conftest import shared


@pytest.fixture(scope="module")
def task() -> AnswerTask:
    made = open_task("pocket-sudoku")
    assert isinstance(made, PocketSudoku)
    return made


def test_every_reference_passes_and_every_wrong_one_fails(task: AnswerTask) -> None:
    for sample, reference in zip(task.samples(), task.references(), strict=True):
        givens = sample.row["givens"]
        assert sample.id == reference.id
        for variant in VARIANTS:
            assert task.grade(sample, reference.text, variant) == Verdict("pass")
        place = givens.index(grids.EMPTY)
        digit = str(int(reference.text[place]) % 9 + 1)
        wrong = reference.text[:place] + digit + reference.text[place + 1 :]
        verdict = task.grade(sample, wrong, "repaired")
        assert verdict.outcome == "fail"
        assert verdict.reason == "Row 1 does not have every digit."


def test_a_grid_that_forgets_a_given_fails(task: AnswerTask) -> None:
    first, second = task.samples()[:2]
    verdict = task.grade(first, second.row["solution"], "repaired")
    assert (verdict.outcome, verdict.reason) == ("fail", "A digit that is given is another one.")
    assert task.grade(first, "", "repaired").reason == "0 cells are no grid of 81."


def test_a_response_reaches_from_the_first_gap_to_the_last(task: AnswerTask) -> None:
    for sample in task.samples():
        assert sample.canvas is not None
        text = grids.lines(sample.row["solution"])
        first, last = sample.canvas.parts[0], sample.canvas.parts[-1]
        response = text[len(first) : len(text) - len(last)]
        assert task.extract(response, sample, "repaired") == sample.row["solution"]
        shown = "".join(
            f"{grids.EMPTY * length}{part}"
            for length, part in zip(
                sample.canvas.sizes(1, 1)[0], sample.canvas.parts[1:], strict=True
            )
        )
        assert f"{first}{shown}" == grids.lines(sample.row["givens"])


def test_confirmations_are_sealed() -> None:
    sealed = open_task("pocket-sudoku-confirm")
    assert sealed.sealed
    assert sealed.dev is None
    assert open_task("pocket-sudoku").dev == "pocket-sudoku"


@pytest.mark.parametrize(
    ("name", "number", "measures"),
    [
        ("pocket-sudoku-d1", 500, {"cells": 1.0}),
        ("pocket-sudoku-dream", 972, {str(givens): 1.0 for givens in range(4, 13)}),
    ],
)
def test_grids_of_others_are_asked_in_the_same_way(
    name: str, number: int, measures: dict[str, float]
) -> None:
    """Their own solutions pass by the rules and by the scores that their authors report."""
    task = open_task(name, Data(shared("data")))
    assert isinstance(task, PocketSudoku)
    answered = [
        (sample, reference.text)
        for sample, reference in zip(task.samples(), task.references(), strict=True)
    ]
    assert len(answered) == number
    assert all(task.grade(*each, "repaired").outcome == "pass" for each in answered)
    assert task.measures(answered) == measures
    assert {len(sample.row["givens"]) for sample, _ in answered} == {16}
    wrong = [(sample, "1" * 16) for sample, _ in answered]
    assert all(score < 0.5 for score in task.measures(wrong).values())


def test_an_evaluation_gives_the_digits_that_are_given(
    tmp_path: Path, task: AnswerTask, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a run records is what `generate` writes for the same puzzles, in the rest of the grid's cells."""
    asked = (
        "eval pocket-sudoku --model pocket-sudoku --method fast-dllm-parallel --limit 3 --batch 2"
    )
    assert main([*asked.split(), "--out", str(tmp_path / "run")]) == 0
    assert "3 problems" in capsys.readouterr().out
    journal = (tmp_path / "run" / "journal.jsonl").read_text().splitlines()
    lines = [each for each in map(json.loads, journal) if each["event"] == "sample"]
    model = archer.load("pocket-sudoku", device="cpu", dtype="float32")
    few = task.samples()[:3]
    done = model.generate([each.canvas for each in few if each.canvas], "fast-dllm-parallel")
    assert len(lines) == len(done) == 3
    for sample, line, each in zip(few, lines, done, strict=True):
        assert line["id"] == sample.id
        answer = task.extract(line["completion"], sample, "repaired")
        assert answer == grids.cells(each.whole)
        kept = zip(sample.row["givens"], answer, strict=True)
        assert all(given in (grids.EMPTY, cell) for given, cell in kept)
