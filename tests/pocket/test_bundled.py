"""The model that comes with the package: an ordinary folder, and the answers that were recorded from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import archer
from archer.cli import main
from archer.judge import FunctionCheck, Judge
from archer.loading.hub import locate
from archer.model import Model
from archer.pocket import frozen, prompts

RECORDED = Path(frozen.__file__).with_name("recorded.json")
MEGABYTE = 1 << 20
EXAMPLE = """\
Write a function to count the numbers in nums that are greater than 5.
assert solve([1, 7, 9]) == 2
assert solve([2]) == 0
def solve(nums):"""
TESTS = "\n".join(
    [
        "assert solve([1, 7, 9, 6]) == 3",
        "assert solve([5, -8]) == 0",
        "assert solve([]) == 0",
    ]
)


@pytest.fixture(scope="module")
def model() -> Model:
    return archer.load("pocket", device="cpu", dtype="float32")


def test_it_is_an_ordinary_folder(model: Model) -> None:
    folder = locate("pocket")
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= names
    assert (folder / "model.safetensors").stat().st_size <= 12 * MEGABYTE
    assert "apache-2.0" in (folder / "README.md").read_text()
    assert model.folder.architecture.name == "LLaDAModelLM"
    assert model.folder.length == 64
    parameters = sum(weight.numel() for weight in model.network.parameters())
    assert 1e6 <= parameters <= 4e6


def answers(model: Model, number: int) -> tuple[dict[str, str | None], dict[str, str]]:
    """What the model writes now, and what was recorded, for the first problems."""
    recorded = json.loads(RECORDED.read_text())
    assert len(recorded["completions"]) == 50
    tasks = {task.name: task for task in frozen.load("test")}
    wanted = dict(list(recorded["completions"].items())[:number])
    found = {
        name: model.generate(prompts.message(tasks[name]), **recorded["settings"])[0].text
        for name in wanted
    }
    return found, wanted


def test_recorded_completions_come_back(model: Model) -> None:
    found, wanted = answers(model, 12)
    assert len(found) == 12
    assert found == wanted


@pytest.mark.slow
def test_all_recorded_completions_come_back(model: Model) -> None:
    found, wanted = answers(model, 50)
    assert len(found) == 50
    assert found == wanted


def test_the_example_of_the_first_page_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", EXAMPLE]) == 0
    body = capsys.readouterr().out
    check = FunctionCheck(f"def solve(nums):{body}", "solve", TESTS, expose=())
    with Judge(workers=1) as judge:
        assert judge.grade(check).outcome == "pass", body
