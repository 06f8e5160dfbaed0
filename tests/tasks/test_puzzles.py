"""GSM8K, Countdown and Sudoku: references, seeded wrong answers, and what the releases read differently."""

import re
from functools import cache
from random import Random

import pytest

from archer.tasks import AnswerTask, Data, Sample, open_task
from archer.tasks.grading import GradingOptions, grade
from archer.tasks.reading import answers, puzzles
from conftest import shared
from tasks import naive_reading as naive
from tasks.test_reading import drawn

TOLD = {
    "gsm8k": "Let me see.\n</reasoning>\n<answer>\n\\boxed{%s}\n</answer>",
    "countdown": "</reasoning>\n<answer>\n\\boxed{%s}\n</answer>",
    "countdown-steps-3": "%s\n\nInput: 1,2",
    "countdown-steps-4": "%s\n\nInput: 1,2",
    "countdown-steps-5": "%s\n\nInput: 1,2",
    "sudoku-cells": "</reasoning>\n<answer>\n%s\n</answer>",
    "sudoku-grids": "%s\n\nInput:",
}
"""What a model writes around its answer."""
SIZES = {
    "gsm8k": 1319,
    "countdown": 256,
    **dict.fromkeys(("countdown-steps-3", "countdown-steps-4", "countdown-steps-5"), 992),
    "sudoku-cells": 500,
    "sudoku-grids": 900,
}


@cache
def task(name: str) -> AnswerTask:
    opened = open_task(name, Data(shared("data")))
    assert isinstance(opened, AnswerTask)
    return opened


def verdict(name: str, sample: Sample, response: str) -> tuple[bool, bool]:
    """Whether a response passes as published, and repaired."""
    found = [
        task(name).grade(sample, task(name).extract(response, sample, variant), variant).outcome
        for variant in ("as_published", "repaired")
    ]
    return found[0] == "pass", found[1] == "pass"


@pytest.mark.parametrize("name", SIZES)
def test_all_references_pass_and_wrong_answers_fail(name: str) -> None:
    samples = {sample.id: sample for sample in task(name).samples()}
    references = list(task(name).references())
    assert len(samples) == len(references) == SIZES[name]
    rng = Random(0)
    for reference in references:
        sample = samples[reference.id]
        assert verdict(name, sample, TOLD[name] % reference.text) == (True, True)
        digits = [found.start() for found in re.finditer(r"\d", reference.text)]
        at = rng.choice(digits)
        other = str((int(reference.text[at]) + rng.randrange(1, 9)) % 10)
        wrong = reference.text[:at] + other + reference.text[at + 1 :]
        if name == "sudoku-cells":  # a given cell is not looked at as published
            assert not verdict(name, sample, TOLD[name] % wrong)[1]
        else:
            assert verdict(name, sample, TOLD[name] % wrong) == (False, False)
        assert verdict(name, sample, "") == (False, False)


def test_references_through_the_confined_readers() -> None:
    for name in SIZES:
        samples = {sample.id: sample for sample in task(name).samples()}
        given = [
            (samples[each.id], TOLD[name] % each.text)
            for each in list(task(name).references())[::60]
        ]
        report = grade(task(name), given, GradingOptions())
        assert report.score == report.score_as_published == 1.0
        assert report.details.get("cells", 1.0) == 1.0
        assert set(report.details.get("by_givens", {"4": 1.0}).values()) == {1.0}


def test_worked_answers_of_gsm8k() -> None:
    for sample in task("gsm8k").samples():
        assert verdict("gsm8k", sample, sample.row["answer"])[1], sample.id


@pytest.mark.parametrize(
    ("response", "published", "repaired"),
    [
        ("\\boxed{70000}", True, True),
        ("\\boxed{70,000}", False, True),
        ("\\boxed{$70000}", True, True),
        ("\\boxed{70000 dollars}", True, True),
        ("\\boxed{1} \\boxed{70000}", False, True),
        ("<answer>1 + 69999 = 70000</answer>", True, True),
        ("The answer is 70,000.", False, True),
        ("so he made 70000", False, True),
        ("\\boxed{...}\n<answer>70000</answer>", True, True),
        ("\\boxed{70001}", False, False),
        ("\\boxed{nan}", False, False),
    ],
)
def test_what_gsm8k_reads(response: str, published: bool, repaired: bool) -> None:
    sample = task("gsm8k").samples()[2]
    assert verdict("gsm8k", sample, response) == (published, repaired)


@pytest.mark.parametrize(
    ("response", "published", "repaired"),
    [
        ("\\boxed{100 - (93 - 16)}", False, False),
        ("\\boxed{93 - (100 - 30)}", True, True),
        ("\\boxed{93 - (100 - 30) = 23}", True, True),
        ("\\boxed{93 + 30 - 100}", True, True),
        ("\\boxed{30 \\times 93 - 100}", False, False),
        ("\\boxed{93 + 30 \u2212 100}", False, True),
        ("<answer>93 + 30 - 100</answer>", True, True),
        ("the answer is 93 + 30 - 100.", False, True),
        ("93 + 30 - 100 = 23", True, False),
        ("\\boxed{93 + 30 - 100 + 0}", False, False),
        ("\\boxed{23}", False, False),
        ("\\boxed{93 // 30 + 100}", False, False),
        ("\\boxed{30 ** 93 ** 100}", False, False),
        ("\\boxed{93 / (100 - 100) - 30}", False, False),
        ("\\boxed{(93 + 30 - 100}", False, False),
    ],
)
def test_what_countdown_reads(response: str, published: bool, repaired: bool) -> None:
    sample = task("countdown").samples()[0]
    assert sample.row == {"numbers": [30, 100, 93], "target": 23}
    assert verdict("countdown", sample, response) == (published, repaired)


@pytest.mark.parametrize(
    ("steps", "published", "repaired"),
    [
        ("44-15=29,79-29=50", True, True),
        ("44-15=29, 79-29=50", False, True),
        ("\n44-15=29,79-29=50", False, True),
        ("79-29=50", False, False),
        ("44-15=29,79-29=50,50+0=50", False, False),
        ("44-15=29,29+79=108", False, False),
        ("44-15=28,79-29=50", False, False),
        ("79-44=35,35+15=50", True, True),
        ("79-44=35,35+15=50.", False, True),
    ],
)
def test_what_countdown_in_steps_reads(steps: str, published: bool, repaired: bool) -> None:
    sample = Sample("x", (), "", {"numbers": [15, 44, 79], "target": 50})
    assert verdict("countdown-steps-3", sample, steps) == (published, repaired)


def test_steps_are_graded_as_by_the_release() -> None:
    """On references and on damaged ones, and on drawn texts."""
    rng = Random(1)
    for sample in task("countdown-steps-4").samples()[:300]:
        numbers, target = sample.row["numbers"], sample.row["target"]
        query = ",".join(map(str, [*numbers, target]))
        steps = sample.row["steps"]
        for _ in range(4):
            at = rng.randrange(len(steps))
            changed = steps[:at] + rng.choice("0123456789+-*/=,") + steps[at + 1 :]
            for text in (steps, changed):
                found = puzzles.countdown_stepped(text, numbers, target)
                assert found == naive.countdown_stepped(query, text), text


@pytest.mark.parametrize(
    ("response", "published", "repaired"),
    [
        ("<answer>3142243142131324</answer>", True, True),
        ("<answer>\n3142\n2431\n4213\n1324\n</answer>", True, True),
        ("<answer>The grid: 3142243142131324</answer>", False, True),
        ("<answer>3142243142131324", True, True),
        ("It is 3142243142131324.", True, True),
        ("<answer></answer> 3142243142131324", True, True),
        ("<answer>3142243142131320</answer>", False, False),
        ("<answer>314224314213132</answer>", False, False),
        ("", False, False),
    ],
)
def test_what_sudoku_reads(response: str, published: bool, repaired: bool) -> None:
    sample = task("sudoku-cells").samples()[0]
    assert verdict("sudoku-cells", sample, response) == (published, repaired)


def test_another_solution_of_a_puzzle_counts_only_repaired() -> None:
    """A quarter of d1's puzzles has more than one."""
    several = [sample for sample in task("sudoku-cells").samples() if len(solutions(sample)) > 1]
    assert len(several) == 124
    for sample in several[:20]:
        other = next(each for each in solutions(sample) if each != sample.row["Solution"])
        assert verdict("sudoku-cells", sample, f"<answer>{other}</answer>") == (False, True)
        cells = task("sudoku-cells").measures([(sample, other)])["cells"]
        assert 0.0 < cells < 1.0


def test_grids_of_dream_have_one_solution() -> None:
    for sample in task("sudoku-grids").samples()[::10]:
        cells = sample.row["input"].replace("\n", "")
        assert sample.row["givens"] == 16 - cells.count("0")
        found = solutions(Sample("x", (), "", {"Puzzle": cells}))
        assert found == [sample.row["output"].replace("\n", "")]


def solutions(sample: Sample) -> list[str]:
    puzzle = sample.row["Puzzle"]
    return [
        grid
        for grid in all_grids()
        if all(given in ("0", cell) for given, cell in zip(puzzle, grid, strict=True))
    ]


@cache
def all_grids() -> list[str]:
    """All 288, cell by cell."""
    grids = [""]
    for at in range(16):
        grids = [f"{grid}{digit}" for grid in grids for digit in "1234" if fits(grid, digit, at)]
    assert len(grids) == 288
    return grids


def fits(grid: str, digit: str, at: int) -> bool:
    row, column = divmod(at, 4)
    return not any(
        cell == digit
        and (
            other // 4 == row
            or other % 4 == column
            or (other // 8 == at // 8 and other % 4 // 2 == column // 2)
        )
        for other, cell in enumerate(grid)
    )


@pytest.mark.parametrize(
    ("response", "published", "repaired"),
    [
        ("1234\n3412\n4123\n2341", True, True),
        ("1234\n3412\n4123\n2341\n\nInput:\n1111", True, True),
        (" 1 2 3 4\n3412\n4123\n2341", True, True),
        ("1234 3412 4123 2341", False, True),
        ("\n\n1234\n3412\n4123\n2341", False, True),
        ("1234\n3412\n4123\n234", False, False),
        ("1234\n3412\n4123\n2314", False, False),
        ("2143\n3412\n4321\n1234", False, False),
        ("no", False, False),
    ],
)
def test_what_a_grid_reads(response: str, published: bool, repaired: bool) -> None:
    row = {"input": "1000\n0002\n4003\n0000", "output": "1234\n3412\n4123\n2341"}
    sample = Sample("x", (), "", row)
    assert verdict("sudoku-grids", sample, response) == (published, repaired)


def test_drawn_texts_are_read_as_by_the_published_expressions() -> None:
    digits = "3142243142131324"
    for text in drawn(3000):
        for whole in (text, text.replace("7", digits), text.replace("7", f"{digits}=3")):
            assert puzzles.sudoku_answer(whole, True) == naive.sudoku_published(whole)
            assert answers.gsm8k_answer(whole, True) == naive.gsm8k_published(whole)
            assert puzzles.countdown_expression(whole, True) == naive.countdown_published(whole)


def test_prompts_of_dream_show_eight_and_ask_none_of_them() -> None:
    sample = task("countdown-steps-3").samples()[0]
    assert sample.prefix.startswith("Given 4 numbers, use +-*/ to operate over the first three ")
    assert sample.prefix.count("Input: ") == 9
    assert sample.prefix.endswith("\nOutput: ")
    assert sample.row["steps"] not in sample.prefix
    grid = task("sudoku-grids").samples()[0]
    assert grid.prefix.count("Input:\n") == 9
    assert grid.prefix.endswith(f"Input:\n{grid.row['input']}\nOutput:\n ")


def test_prompts_of_d1() -> None:
    countdown, cells = task("countdown").samples()[0], task("sudoku-cells").samples()[0]
    assert countdown.messages[0]["content"].endswith("\n\nNumbers: [30, 100, 93]\nTarget: 23")
    assert cells.messages[0]["content"].endswith("Sudoku puzzle: 3102200002100320\n")
    assert {sample.prefix for sample in (countdown, cells)} == {"<reasoning>"}
