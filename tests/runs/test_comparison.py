"""Two runs side by side: the paired counts, their statistics, and what is refused."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from archer.cli import main
from archer.errors import BadRun
from archer.runs.comparison import about_time, compare, conclusion, in_order, labels, open_run
from archer.runs.folder import JOURNAL
from support.run_folders import replaced, rewrite_journal, write_run

PAIRS = [(True, True)] * 5 + [(True, False)] * 2 + [(False, True)] * 7 + [(False, False)] * 6


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    first, second = ([pair[side] for pair in PAIRS] for side in (0, 1))
    return (
        write_run(tmp_path / "a", first, [2.0] * 20),
        write_run(tmp_path / "b", second, [1.0] * 10 + [0.5] * 10),
    )


def test_the_paired_table(runs: tuple[Path, Path]) -> None:
    found = compare(*map(open_run, runs))
    base = found["suites"]["base"]
    assert [base[key] for key in ("both", "only_first", "only_second", "neither")] == [5, 2, 7, 6]
    assert base["score_first"] == 7 / 20
    assert base["score_second"] == 12 / 20
    assert base["difference"] == pytest.approx(0.25)
    low, high = base["difference_interval"]
    assert low < 0.25 < high
    assert base["mcnemar_p"] == pytest.approx(0.1796875)
    assert found["suites"]["extended"]["neither"] == 20
    assert found["suites"]["extended"]["mcnemar_p"] == 1.0
    assert found["identical_completions"] == 20


def test_times_are_compared_problem_by_problem(runs: tuple[Path, Path]) -> None:
    time = compare(*map(open_run, runs))["time"]
    assert time["seconds_first"] == 2.0
    assert time["seconds_second"] == 0.75
    assert time["speedup"] == pytest.approx(40 / 15)
    assert time["speedup_interval"][0] < 40 / 15 < time["speedup_interval"][1]
    assert time["per_problem"]["median"] == 3.0
    assert time["per_problem"]["quartiles"] == [2.0, 4.0]
    assert time["per_problem"]["geometric_mean"] == pytest.approx(8**0.5)


def test_one_problem_can_be_compared(tmp_path: Path) -> None:
    first = write_run(tmp_path / "a", [True], [1.0])
    second = write_run(tmp_path / "b", [True], [2.0])
    found = compare(open_run(first), open_run(second))
    assert found["time"]["per_problem"]["quartiles"] == [0.5] * 2
    assert found["time"]["speedup_interval"] is None
    assert found["suites"]["base"]["difference_interval"] is None
    assert conclusion(found).endswith("One problem says nothing about speed.")


def test_the_conclusion_is_the_tests_and_not_the_points(tmp_path: Path) -> None:
    few = [True] * 13 + [False] * 2
    first = open_run(write_run(tmp_path / "a", few, [2.0] * 15))
    second = open_run(write_run(tmp_path / "b", few, [1.0] * 15))
    assert conclusion(compare(first, second)) == (
        "No significant difference in solved problems: 13 of 15 solved by both, 0 only by archer "
        "radius=4 (a), 0 only by archer radius=4 (b) (p = 1). archer radius=4 (b) is 2.00 times as "
        "fast as archer radius=4 (a) (95 %: 2.00 to 2.00)."
    )
    all_right = open_run(write_run(tmp_path / "c", [True] * 15, [2.0] * 15))
    none_right = open_run(write_run(tmp_path / "d", [False] * 15, [4.0] * 15))
    said = conclusion(compare(all_right, none_right))
    assert "solves more than" in said
    assert "p < 0.001" in said
    assert "is slower than" in said
    assert "No significant difference in time" in about_time(compare(all_right, first))


@pytest.mark.parametrize(
    ("change", "value", "named"),
    [
        ("identity__prompts__sha256", "other", r"prompts\.sha256"),
        ("identity__prompts__chat", False, r"prompts\.chat"),
        ("identity__task__data", {"f": "1"}, r"task\.data\.f"),
        ("identity__task__version", "2", r'task\.version: "1" against "2"'),
        ("identity__evaluator__metric", "m", r"evaluator\.metric"),
        ("identity__problems__sha256", "z", r"problems\.sha256"),
        ("identity__method__settings", {"length": 9}, r"budget \(length\): 8 against 9"),
    ],
)
def test_incomparable_runs_are_refused(tmp_path: Path, change: str, value: Any, named: str) -> None:
    first = write_run(tmp_path / "a", [True], [1.0])
    second = write_run(tmp_path / "b", [True], [1.0], **{change: value})
    with pytest.raises(BadRun, match=rf"cannot be compared\. They differ in .*{named}"):
        compare(open_run(first), open_run(second))


def test_other_prompts_of_the_same_model_are_refused(tmp_path: Path) -> None:
    first = write_run(tmp_path / "a", [True], [1.0])
    second = shutil.copytree(first, tmp_path / "b")
    rewrite_journal(second, replaced('"s0"', '"other"'))
    with pytest.raises(BadRun, match="differ in prompt of problem 0"):
        compare(open_run(first), open_run(second))


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"identity__model__files": {"config.json": "y"}}, "different models"),
        ({"identity__batch": 8}, "several problems at a time"),
        ({"circumstances__threads": 2}, r"different machines \(threads: 1 against 2\)"),
        ({"identity__model__dtype": "bfloat16"}, "The dtype differs: float32 against bfloat16"),
        ({"identity__archer": "2"}, "different versions of Archer"),
    ],
)
def test_readers_are_told_what_else_differs(
    tmp_path: Path, changes: dict[str, Any], remark: str
) -> None:
    first = write_run(tmp_path / "a", [True], [1.0])
    second = write_run(tmp_path / "b", [True], [1.0], **changes)
    (found,) = compare(open_run(first), open_run(second))["remarks"]
    assert re.search(remark, found)


def test_an_incomplete_run_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", [True, False], [1.0, 1.0])
    lines = (run / JOURNAL).read_text().splitlines(keepends=True)
    (run / JOURNAL).write_text("".join(lines[:-1]))
    with pytest.raises(BadRun, match="incomplete: 1 of 2 problems are graded"):
        open_run(run)


def test_the_command_shows_the_table(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *map(str, runs)]) == 0
    shown = capsys.readouterr().out
    assert "+25.0%" in shown
    assert "(p = 0.18)" in shown
    assert "McNemar's exact test" in shown
    assert "B is 2.67 times as fast" in shown
    assert main(["compare", *map(str, runs), str(runs[0]), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["comparisons"]
    assert [each["second"]["run"] for each in found] == [str(runs[1]), str(runs[0])]


def test_one_run_is_not_a_comparison(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(runs[0])]) == 2
    assert "at least two" in capsys.readouterr().err


def named(path: str, name: str, **settings: Any) -> tuple[Path, dict[str, Any]]:
    return Path(path), {"method": {"name": name, "settings": {"length": 8, **settings}}}


SABER2, SABER4 = named("a", "saber", n=2), named("b", "saber", n=4)


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        ([SABER2, named("b", "archer", n=4, radius=8)], "saber, archer radius=8"),
        ([SABER2, SABER4, named("c", "archer", radius=8)], "saber n=2, saber n=4, archer radius=8"),
        ([SABER2, named("c", "./a.py:B+archer:8", radius=8.0)], "saber, ./a.py:B+archer:8"),
        ([named("x/a", "saber"), named("x/b", "saber")], "saber (a), saber (b)"),
        ([named("x/a", "saber"), named("y/a", "saber")], "saber (x/a), saber (y/a)"),
        ([SABER2, named("c", "saber", n=2), SABER4], "saber n=2 (a), saber n=2 (c), saber n=4"),
    ],
)
def test_runs_are_told_apart_by_method_setting_or_folder(runs: Any, told: str) -> None:
    assert ", ".join(labels(runs)) == told


def test_problems_come_as_people_count() -> None:
    assert in_order(["10", "2", "1", "p-10", "p-9/b", "p-9/a"]) == [
        "1",
        "2",
        "10",
        "p-9/a",
        "p-9/b",
        "p-10",
    ]
