"""What runs are called beside each other: never two by one name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from archer.runs.comparison import compare, open_run
from archer.runs.conclusions import conclusion
from archer.runs.labels import in_order, labels
from support.run_folders import write_run


def run(path: str, name: str, **settings: Any) -> tuple[Path, dict[str, Any]]:
    return Path(path), {"method": {"name": name, "settings": {"length": 8, **settings}}}


def test_different_methods_need_no_more() -> None:
    assert labels([run("a", "saber", n=2), run("b", "archer", n=4, radius=8)]) == [
        "saber",
        "archer radius=8",
    ]


def test_the_settings_that_differ_are_told() -> None:
    found = labels([run("a", "saber", n=2), run("b", "saber", n=4), run("c", "archer", radius=8)])
    assert found == ["saber n=2", "saber n=4", "archer radius=8"]


def test_the_folder_is_told_where_no_setting_differs() -> None:
    assert labels([run("x/a", "saber"), run("x/b", "saber")]) == ["saber (a)", "saber (b)"]
    assert labels([run("x/a", "saber"), run("y/a", "saber")]) == ["saber (x/a)", "saber (y/a)"]
    three = labels([run("x/a", "saber", n=2), run("x/b", "saber", n=2), run("x/c", "saber", n=4)])
    assert three == ["saber n=2 (a)", "saber n=2 (b)", "saber n=4"]


def test_a_conclusion_says_which_of_two_is_meant(tmp_path: Path) -> None:
    def made(name: str, n: int, passes: list[bool]) -> Path:
        method = {"name": "saber", "settings": {"length": 8, "n": n}}
        return write_run(tmp_path / name, passes, [1.0] * 5, identity__method=method)

    found = compare(
        open_run(made("a", 2, [True] * 5)), open_run(made("b", 4, [True, True] + [False] * 3))
    )
    assert "3 only by saber n=2, 0 only by saber n=4" in conclusion(found)


def test_problems_come_as_people_count() -> None:
    assert in_order(["10", "2", "1", "p-10", "p-9/b", "p-9/a"]) == [
        "1",
        "2",
        "10",
        "p-9/a",
        "p-9/b",
        "p-10",
    ]
