"""The models that come with the package: ordinary folders, and what was recorded from the first of them."""

import hashlib
import json
from pathlib import Path

import pytest

import archer
from archer.cli import main
from archer.errors import BadRequest
from archer.judge import FunctionCheck, Judge
from archer.loading.hub import BUNDLED, locate
from archer.model import Model
from archer.pocket import frozen, grids, prompts
from archer.tasks.pocket import Pocket, function_name

RECORDED = Path(frozen.__file__).with_name("recorded.json")
MEGABYTE = 1 << 20
FEW = 6
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


ARCHITECTURES = {
    "pocket": "LLaDAModelLM",
    "pocket-dream": "DreamModel",
    "pocket-blind": "PromptBlindLLaDAModelLM",
    "pocket-sudoku": "LLaDAModelLM",
}
PROGRAMMERS = [name for name in BUNDLED if name != "pocket-sudoku"]


@pytest.mark.parametrize("name", BUNDLED)
def test_it_is_an_ordinary_folder(name: str) -> None:
    folder = locate(name)
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= names
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 3 * MEGABYTE
    card = (folder / "README.md").read_text()
    assert "apache-2.0" in card
    assert f"# {name}\n" in card
    model = archer.load(name, device="cpu", dtype="float32")
    assert model.folder.architecture.name == ARCHITECTURES[name]
    assert model.folder.length == (64 if name in PROGRAMMERS else 90)
    assert 1.1e6 <= model.folder.parameters <= 1.5e6


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", PROGRAMMERS)
def test_it_solves_problems_it_was_not_trained_on(name: str) -> None:
    """The first dev problems, by the method whose scores on all of them are in docs/results/models.json."""
    model = archer.load(name, device="cpu", dtype="float32")
    problems = frozen.load("dev")[:FEW]
    done = model.generate([prompts.message(each) for each in problems], method="llada-confidence")
    with Judge(Pocket.limits, workers=1) as judge:
        passed = [
            judge.grade(
                FunctionCheck(
                    problem.program(each.text or ""),
                    function_name(problem),
                    "\n".join(problem.visible),
                    expose=(),
                )
            ).outcome
            == "pass"
            for problem, each in zip(problems, done, strict=True)
        ]
    assert sum(passed) >= FEW / 2


@pytest.mark.parametrize("split", ["dev", "dev-6x6"])
def test_grids_it_was_not_trained_on_are_filled(split: grids.HeldOut) -> None:
    """A third of the first ones at least, a digit per update; scores on more are in docs/reproducing.md."""
    model = archer.load("pocket-sudoku", device="cpu", dtype="float32")
    puzzles = grids.load(split)[:FEW]
    prompts = [grids.fill(each.givens) for each in puzzles]
    done = model.generate(prompts, method="llada-confidence")
    solved = [
        grids.solves(grids.cells(each.whole), puzzle.givens)
        for puzzle, each in zip(puzzles, done, strict=True)
    ]
    assert sum(solved) >= FEW / 3
    for puzzle, each in zip(puzzles, done, strict=True):
        kept = zip(puzzle.givens, grids.cells(each.whole), strict=True)
        assert all(given in (grids.EMPTY, cell) for given, cell in kept)


def test_a_grid_is_written_from_nothing() -> None:
    model = archer.load("pocket-sudoku", device="cpu", dtype="float32")
    (done,) = model.generate(grids.message(4), method="llada-confidence", length=20)
    assert grids.solves(grids.cells(done.text), grids.EMPTY * 16)


@pytest.mark.slow
def test_the_blind_prompt_is_cached_exactly() -> None:
    """Whatever the radius: what Saber writes with a prompt that is computed once is what it writes anyway."""
    model = archer.load("pocket-blind", device="cpu", dtype="float64")
    asked = [prompts.message(each) for each in frozen.load("dev")[:4]]
    eager = model.generate(asked, method="saber")
    once = model.generate(asked, method="archer", radius="inf")
    assert [each.tokens for each in once] == [each.tokens for each in eager]
    assert [each.full_passes for each in once] == [1] * len(asked)
    assert all(each.full_passes > 1 for each in eager)


@pytest.mark.parametrize("number", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_recorded_completions_come_back(model: Model, number: int) -> None:
    recorded = json.loads(RECORDED.read_text())
    assert len(recorded["completions"]) == 50
    tasks = {task.name: task for task in frozen.load("test")}
    expected = dict(list(recorded["completions"].items())[:number])
    for name, text in expected.items():
        (done,) = model.generate(prompts.message(tasks[name]), **recorded["settings"])
        assert done.text == text


def test_the_example_of_the_first_page_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", EXAMPLE]) == 0
    body = capsys.readouterr().out
    check = FunctionCheck(f"def solve(nums):{body}", "solve", TESTS, expose=())
    with Judge(workers=1) as judge:
        assert judge.grade(check).outcome == "pass", body


LONG_PROMPTS: dict[frozen.HeldOut, str] = {
    "dev": "5b9a40f7dbdd21a66dfe5395e1fa1b444fb3cf95942c799f43cf17418baa3396",
    "test": "0c40fa233a1c3b04defd7a57da804af8999a873c32149bb6192ae7bab7dbae9d",
    "confirm": "e5855913d76ff0aa245e6eb0957bc2e04f65f6f890c7006dcfaef6ecd7e37d5a",
    "confirm3": "f907d1769c96a34cf0b117674eff2722e0e5a05492a9a51434500d56e56be25f",
}
"""sha256 of all long prompts of a set, each with a zero byte behind it; every published run rests on them."""


@pytest.mark.parametrize("split", frozen.SIZES)
def test_long_prompts_are_the_published_ones(split: frozen.HeldOut) -> None:
    digest = hashlib.sha256()
    examples = frozen.load_examples(split)
    for task in frozen.load(split):
        digest.update(prompts.long_message(task, examples[task.name]).encode() + b"\0")
    assert digest.hexdigest() == LONG_PROMPTS[split]


def test_damaged_files_are_refused() -> None:
    with pytest.raises(BadRequest, match="The dev set of pocket is damaged"):
        frozen.parse(b"{}\n", "dev")
    with pytest.raises(
        BadRequest, match="The worked examples of the test set of pocket are damaged"
    ):
        frozen.parse_examples(b"{}\n", "test")
