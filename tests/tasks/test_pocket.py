"""The tasks of the bundled model: references, prompts, extraction."""

import pytest

from archer.judge import Judge
from archer.pocket import frozen
from archer.tasks import CodeTask, open_task
from archer.tasks.grading import GradingOptions, OneCompletion, grade, verdict_on


def opened(name: str) -> CodeTask:
    task = open_task(name)
    assert isinstance(task, CodeTask)
    return task


def test_references_pass_both_suites() -> None:
    task = opened("pocket")
    pairs = list(zip(task.samples(), task.references(), strict=True))[:60]
    with Judge(task.limits) as judge:
        for sample, reference in pairs:
            for suite in task.suites:
                checks = task.checks(sample, reference.text, suite, "repaired")
                assert verdict_on(OneCompletion(judge), checks).outcome == "pass", sample.id


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pocket", "pocket-dev", "pocket-confirm", "pocket-confirm3"])
def test_all_references_pass(name: str) -> None:
    task = opened(name)
    given = [(s, r.text) for s, r in zip(task.samples(), task.references(), strict=True)]
    assert grade(task, given, GradingOptions(raw=True)).score == 1.0


def test_hidden_asserts_are_never_shown() -> None:
    for name in ("pocket", "pocket-long", "pocket-dev"):
        for sample in opened(name).samples():
            said = sample.messages[0]["content"]
            assert all(text in said for text in sample.row["visible"])
            assert not any(
                text in said for text in set(sample.row["hidden"]) - set(sample.row["visible"])
            )


def test_the_long_prompts_are_of_the_same_problems() -> None:
    short, long = opened("pocket").samples(), opened("pocket-long").samples()
    assert [each.id for each in short] == [each.id for each in long]
    for one, other in zip(short, long, strict=True):
        assert other.messages[0]["content"].endswith(one.messages[0]["content"])
    held: tuple[frozen.HeldOut, ...] = ("dev", "confirm", "confirm3")
    for split in held:
        names = f"pocket-{split}", f"pocket-{split}-long"
        short, long = (opened(name).samples() for name in names)
        assert [each.id for each in short] == [each.id for each in long]
        assert len(short) == frozen.SIZES[split]


def test_a_body_and_a_whole_function_are_both_understood() -> None:
    task = opened("pocket")
    sample = task.samples()[0]
    header, body = sample.row["header"], sample.row["body"]
    program = f"{header}{body}\n"
    assert task.extract(body, sample, "repaired") == program
    assert task.extract(body, sample, "as_published") == program
    whole = f"Here you are:\n```python\n{program}```\nDone."
    assert task.extract(whole, sample, "repaired") == program.strip("\n")
    assert task.extract(whole, sample, "as_published") != program
    assert task.extract("nonsense (", sample, "repaired") == f"{header}nonsense (\n"
