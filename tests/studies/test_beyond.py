"""The studies beyond the paper: what is measured, and that the plan's verdict is the plan's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="figures come with the extra [report]")

from archer.studies import confirm, refresh, tail
from archer.studies.registry import BEYOND, STUDIES, find_study
from archer.studies.study import result_of
from archer.studies.workspace import FULL, Workspace
from archer.tasks import Data
from studies.tiny_workspace import PROBLEMS, Tiny, tiny_workspace


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    found = tiny_workspace(tmp_path_factory.mktemp("beyond"))
    for name in confirm.TASKS:
        found._tasks[name] = type("Planned", (Tiny,), {"name": name})(Data())
    return found


def test_they_are_found_by_name_and_are_no_part_of_a_reproduction() -> None:
    assert not BEYOND.keys() & STUDIES.keys()
    assert all(find_study(name) is study for name, study in BEYOND.items())


@pytest.mark.parametrize("name", BEYOND)
def test_a_result_is_plain_and_presented_from_json_alone(name: str, workspace: Workspace) -> None:
    study = BEYOND[name]
    result = json.loads(json.dumps(result_of(study, workspace), allow_nan=False))
    presented = study.present(result)
    assert result["n"] == PROBLEMS
    assert all("n = " in table.title and table.rows for table in presented.tables)
    assert len(study.arms(workspace)) == len(result["rows"])


def test_every_rule_is_compared_with_saber(workspace: Workspace) -> None:
    rows = {row["rule"]: row for row in refresh.measure(workspace).rows}
    assert list(rows) == [rule.name for rule in refresh.RULES]
    saber = rows["saber"]
    assert saber["cost"] == 1.0
    assert saber["identical"] == 100.0
    assert saber["refreshes_by_fifth"][0] == 1.0
    assert set(saber["refreshes_by_fifth"]) <= {0.0, 1.0}
    assert all(row["cost"] <= 1.0 + 1e-9 for name, row in rows.items() if "doubt" not in name)
    assert {name for name, row in rows.items() if "speedup" in row} == {
        rule.name for rule in refresh.RULES if rule.key
    }


def test_resting_columns_save_work_and_the_delay_is_bounded(workspace: Workspace) -> None:
    rows = {row["rule"]: row for row in tail.measure(workspace).rows}
    assert list(rows) == [rule.name for rule in tail.RULES]
    assert rows["saber"]["cost"] == 1.0
    assert rows["saber"]["longest"] == rows["late"]["longest"] == 0
    assert rows["late"]["cost"] == pytest.approx(1 / rows["late"]["speedup_predicted"], rel=1e-9)
    for name in ("boundary", "look"):
        assert rows[name]["longest"] <= 8


def test_full_passes_are_counted_by_fifths() -> None:
    assert refresh.by_fifth([[True] * 2 + [False] * 8]) == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert refresh.by_fifth([[True], [False] * 5]) == [0.5, 0.0, 0.0, 0.0, 0.0]
    assert refresh.by_fifth([]) == [0.0] * refresh.FIFTHS


def test_the_development_looks_at_so_many_problems(workspace: Workspace) -> None:
    whole = replace(workspace, scale=FULL, dev_task="pocket-dev")
    assert refresh.sizes(whole) == {"pocket-dev": 200, "pocket-dev-long": 80}
    other = replace(workspace, dev_task=None)
    assert refresh.sizes(other) == {"tiny": PROBLEMS}


def planned(method: str, task: str, **changes: Any) -> dict[str, Any]:
    return {
        "method": method,
        "task": task,
        "identical_gain": 10.0,
        "identical_p": 1e-6,
        "not_worse_p": 1e-3,
        "cost": 0.60,
        "cost_fixed": 0.63,
    } | changes


def verdict(**changes: Any) -> bool:
    """Of the first rule, when one of its rows is changed."""
    first, other = confirm.RULES
    short, long = confirm.TASKS
    rows = [planned(first, short, **changes), planned(first, long)]
    rows += [planned(other, task) for task in confirm.TASKS]
    found = confirm.succeeded(rows)
    assert found[other] or changes
    return found[first]


def test_a_rule_succeeds_when_everything_holds_on_both_tasks() -> None:
    assert verdict()
    assert not verdict(identical_gain=7.9)
    assert not verdict(identical_p=0.06)
    assert not verdict(cost=0.631)
    assert verdict(cost=0.63)
    assert not verdict(not_worse_p=0.06)
    assert verdict(not_worse_p=0.04)


def test_half_of_the_plan_is_no_success_and_is_adjusted_for_the_whole() -> None:
    rows = [planned(method, confirm.TASKS[0], not_worse_p=0.015) for method in confirm.RULES]
    assert confirm.succeeded(rows) == dict.fromkeys(confirm.RULES, False)
    assert [row["not_worse_adjusted"] for row in confirm.judged(rows)] == [0.06, 0.06]


def test_the_plan_takes_all_problems_or_as_few_as_are_asked_for(tmp_path: Path) -> None:
    small = tiny_workspace(tmp_path)
    whole = replace(small, scale=FULL)
    assert {each.problems for each in confirm.all_wanted(whole)} == {1000}
    assert {each.problems for each in confirm.all_wanted(small)} == {PROBLEMS}
    one = replace(small, task=confirm.TASKS[1])
    assert {each.task for each in confirm.all_wanted(one)} == {confirm.TASKS[1]}
