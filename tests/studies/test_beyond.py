"""The studies beyond the paper: what is measured, and that the plan's verdict is the plan's."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("matplotlib", reason="figures come with the extra [report]")

from archer.engine.gap_length import PUBLISHED, Curve
from archer.network import rounded
from archer.results.step import Kind
from archer.runs.statistics import Pairs
from archer.runs.workspace import FULL, Workspace
from archer.tasks import Data
from archer_studies.beyond import (
    confirm,
    frontier,
    gap_length,
    infill,
    length,
    mechanism,
    price,
    quantize,
    refresh,
    tail,
)
from archer_studies.beyond.confirm import DOUBT, MARGIN, REFRESH, TASKS
from archer_studies.beyond.refresh import DIALS, RULES
from archer_studies.paper import validity
from archer_studies.probes.intervals import correlations
from archer_studies.probes.shadow_passes import walk
from archer_studies.registry import BEYOND, STUDIES, find_study
from archer_studies.study import result_of
from conftest import REPOSITORY
from studies.tiny_workspace import PROBLEMS, Tiny, TinyGaps, tiny_workspace


@pytest.fixture(scope="module")
def workspace(whole_numbers: None, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    found = tiny_workspace(tmp_path_factory.mktemp("beyond"))
    for name in (*TASKS, *price.PROBLEMS):
        found._tasks[name] = type("Planned", (Tiny,), {"name": name})(Data())
    for name in infill.TASKS:
        found._tasks[name] = type("Gapped", (TinyGaps,), {"name": name})(Data())
    return found


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer arms, shorter canvases."""
    monkeypatch.setattr(infill, "RULES", {name: name for name in ("oracle", "8", "search")})
    monkeypatch.setattr(
        infill, "DECODERS", {name: infill.DECODERS[name] for name in ("Saber", "threshold")}
    )
    monkeypatch.setattr(gap_length, "MOST", 12)
    sizes = {"64": 8, "128": 12, "256": 16}
    fixed = {name: {"length": size} for name, size in sizes.items()}
    auto = {
        f"auto, at most {name}": {"length": "auto", "max_length": sizes[name]}
        for name in ("64", "256")
    }
    monkeypatch.setattr(length, "CANVASES", fixed | auto)


QUICK = ("tail", "confirm")


def test_they_are_found_by_name_and_are_no_part_of_a_reproduction() -> None:
    assert not BEYOND.keys() & STUDIES.keys()
    assert all(find_study(name) is study for name, study in BEYOND.items())


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in BEYOND],
)
def test_a_result_is_plain_and_presented_from_json_alone(name: str, workspace: Workspace) -> None:
    study = BEYOND[name]
    result = json.loads(json.dumps(result_of(study, workspace), allow_nan=False))
    presented = study.present(result)
    assert result["n"] >= PROBLEMS
    assert all("n = " in table.title and table.rows for table in presented.tables)
    if name in ("refresh", "tail", "confirm", "confirm-doubt"):
        assert result["n"] == PROBLEMS


def test_every_way_of_keeping_weights_stands_beside_the_plain_one(workspace: Workspace) -> None:
    rows = quantize.measure(workspace).rows
    plain, *others = rows
    assert [row["arm"] for row in rows] == ["plain", "int8", "w8a8", "w8a8-head"]
    assert (plain["identical"], plain["agreement"], plain["not_worse_p"] < 1) == (
        100.0,
        100.0,
        True,
    )
    assert plain["drift"] == [0.0] * (workspace.model.folder.shape.layers + 1)
    for row in others:
        assert row["bytes"] < plain["bytes"]
        assert all(0 < each < 0.2 for each in row["drift"][:-1])
        assert 0 <= row["agreement"] <= 100
    assert others[1]["drift"][0] > others[0]["drift"][0]
    assert others[2]["drift"][:-1] == others[1]["drift"][:-1]
    assert others[2]["drift"][-1] != others[1]["drift"][-1]
    assert [row["holds"] for row in quantize.judged(rows)] == ["no"] * 3, (
        "three problems show nothing"
    )


def test_ways_that_the_machine_refuses_are_left_out_with_the_reason(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounded, "probe", lambda: rounded.Trials({}, "There is no VNNI."))
    result = result_of(BEYOND["quantize"], workspace)
    assert [row["arm"] for row in result["rows"]] == ["plain", "int8"]
    assert BEYOND["quantize"].present(result).notes == [
        f"{way} was left out. There is no VNNI. {rounded.INSTEAD}" for way in ("w8a8", "w8a8-head")
    ]


@pytest.mark.slow
def test_every_rule_is_compared_with_saber(workspace: Workspace) -> None:
    rows = {row["rule"]: row for row in refresh.measure(workspace).rows}
    assert list(rows) == [rule.name for rule in refresh.ARMS]
    saber = rows["saber"]
    assert saber["cost"] == 1.0
    assert saber["identical"] == 100.0
    assert saber["refreshes_by_fifth"][0] == 1.0
    assert set(saber["refreshes_by_fifth"]) <= {0.0, 1.0}
    plain = [rule.name for rule in RULES if "doubt" not in rule.settings]
    assert all(rows[name]["cost"] <= 1.0 + 1e-9 for name in plain)
    assert {name for name, row in rows.items() if "speedup" in row} == {
        rule.name for rule in RULES if rule.key
    }


def test_resting_columns_save_work_and_the_delay_is_bounded(workspace: Workspace) -> None:
    rows = {row["rule"]: row for row in tail.measure(workspace).rows}
    assert list(rows) == [rule.name for rule in tail.RULES]
    assert rows["saber"]["cost"] == 1.0
    assert rows["saber"]["longest"] == rows["late"]["longest"] == 0
    assert rows["late"]["cost"] == pytest.approx(1 / rows["late"]["speedup_predicted"], rel=1e-9)
    for name in ("boundary", "look", "look-kept"):
        assert rows[name]["longest"] <= 8


def test_a_dial_that_is_not_turned_is_the_rule_itself(workspace: Workspace) -> None:
    rows = {row["rule"]: row for row in refresh.measure(workspace).rows}
    for turned, plain in (
        ("2-late2-none", "late2"),
        ("2-surprise3-none", "surprise3"),
        ("2-late2-kept", "doubt-kept"),
        ("2-late2-0.99", "doubt-confidence"),
    ):
        same = ("cost", "updates", "base", "same_completions")
        assert [rows[turned][name] for name in same] == [rows[plain][name] for name in same]
    assert len({json.dumps(sorted(rule.settings.items())) for rule in DIALS}) == 16


def test_cached_calls_are_told_by_distance_and_surprise(workspace: Workspace) -> None:
    """The surprise that is told is the one by which the rule of that name refreshes."""
    found = mechanism.measure(workspace)
    probes = [row for row in found.rows if row["part"] == "probe"]
    assert found.n == len(probes)
    assert all(0 < row["distance"] < mechanism.RADIUS and row["surprise"] >= 0 for row in probes)
    assert {int(5 * row["when"]) for row in probes} <= set(range(5))
    arm = workspace.arm("saber+surprise", nats=2.0)
    request = workspace.again(arm)
    for key, prompt in workspace.prompts(request).items():
        anchor = expected = None
        for step in walk(request, prompt):
            now = step.before.response[0]
            if anchor is not None and expected is not None:
                told = validity.surprise(expected, anchor, now, step.before.prompt.mask)
                assert (told >= 2.0) == (step.calls[0].kind is Kind.FULL), key
            if step.calls[0].kind is Kind.FULL:
                anchor, expected = now, validity.foreseen(step)


def test_the_signal_that_parts_calls_is_told() -> None:
    """By surprise alone in made probes: distance tells nothing once that is known."""
    probes = [
        {
            "problem": place % 5,
            "when": 0.1,
            "distance": 1 + place % 7,
            "surprise": place % 3,
            "parted": place % 3 == 2,
        }
        for place in range(210)
    ]
    rows = {
        row["signal"]: row for row in correlations(probes, mechanism.SIGNALS, [mechanism.PARTED])
    }
    assert rows["surprise"]["parted"] > 0.8
    assert abs(rows["distance"]["parted"]) < 0.05
    assert [row["n"] for row in mechanism.by_fifth(probes)] == [210, 0, 0, 0, 0]
    assert sum(row["n"] for row in mechanism.by_distance(probes)) == 210
    by_surprise = {row["bin"]: row["parted"] for row in mechanism.by_surprise(probes) if row["n"]}
    assert by_surprise == {"0 to 0.01": 0.0, "from 1": 50.0}


def test_full_passes_are_counted_by_fifths() -> None:
    assert refresh.by_fifth([[True] * 2 + [False] * 8]) == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert refresh.by_fifth([[True], [False] * 5]) == [0.5, 0.0, 0.0, 0.0, 0.0]
    assert refresh.by_fifth([]) == [0.0] * refresh.FIFTHS


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
    first, other = REFRESH.rules
    short, long = TASKS
    rows = [planned(first, short, **changes), planned(first, long)]
    rows += [planned(other, task) for task in TASKS]
    found = confirm.succeeded(REFRESH, rows)
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
    rows = [planned(method, TASKS[0], not_worse_p=0.015) for method in REFRESH.rules]
    assert confirm.succeeded(REFRESH, rows) == dict.fromkeys(REFRESH.rules, False)
    assert [row["not_worse_adjusted"] for row in confirm.judged(REFRESH, rows)] == [0.06, 0.06]


def test_the_plan_takes_all_problems_or_as_few_as_are_asked_for(tmp_path: Path) -> None:
    small = tiny_workspace(tmp_path)
    whole = replace(small, scale=FULL)
    assert [confirm.problems_of(whole, task) for task in TASKS] == [1000, 1000]
    assert [confirm.problems_of(small, task) for task in TASKS] == [PROBLEMS, PROBLEMS]
    assert confirm.tasks(replace(small, task=TASKS[1])) == (TASKS[1],)


def doubted(method: str, task: str, chance: float, model: str = "pocket") -> dict[str, Any]:
    return {"model": model, "method": method, "task": task, "not_worse_p": chance}


def test_the_second_plan_asks_for_the_answers_of_the_tested_model_on_both_tasks() -> None:
    """Four tests: the least p counts four times, the next three times."""
    first, other = DOUBT.rules
    short, long = TASKS
    rows = [
        doubted(first, short, 0.012),
        doubted(first, long, 0.001),
        doubted(other, short, 0.024),
        doubted(other, long, 0.03),
        doubted(first, short, 1.0, "pocket-dream"),
    ]
    found = confirm.judged(DOUBT, rows, "pocket")
    assert [row["not_worse_adjusted"] for row in found] == pytest.approx(
        [0.036, 0.004, 0.048, 0.048]
    )
    assert confirm.succeeded(DOUBT, rows, "pocket") == {first: True, other: True}
    rows[2] = doubted(other, short, 0.026)
    assert confirm.succeeded(DOUBT, rows, "pocket") == {first: True, other: False}
    assert confirm.succeeded(DOUBT, rows[:1], "pocket") == {first: False, other: False}


def committed() -> Sequence[dict[str, Any]]:
    path = REPOSITORY / "docs" / "results" / "confirm-doubt.json"
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return found


@pytest.mark.parametrize("source", ["measured here", "committed"])
def test_verdicts_are_kept_problem_by_problem(source: str, workspace: Workspace) -> None:
    """Everything that is tested can be counted again from them, and another arm be paired with them later."""
    rows = committed() if source == "committed" else confirm.measure(DOUBT, workspace).rows
    for row in rows:
        (saber,) = (
            each
            for each in rows
            if each["method"] == "saber"
            and (each["model"], each["task"]) == (row["model"], row["task"])
        )
        pairs = Pairs(*([digit == "1" for digit in each["solved"]] for each in (row, saber)))
        assert pairs.n == row["n"]
        assert (pairs.only_first, pairs.only_second) == (row["base_only"], row["base_only_other"])
        assert row["not_worse_p"] == pytest.approx(pairs.not_worse(MARGIN), abs=1e-12)
        assert row["as_saber"].count("1") == row["same_completions"]
        assert row["solved"].count("1") == round(row["base"] * row["n"] / 100)
        assert row["speedup_predicted"] == pytest.approx(1 / row["cost"])
        assert row["operations"] == pytest.approx(row["cost"] * saber["operations"])
    for row in rows:
        if row["method"] == "saber":
            assert row["as_saber"] == "1" * row["n"]


def priced(role: str, task: str, solved: Sequence[bool], operations: Sequence[float]) -> Any:
    """A row of the third confirmation."""
    digits = "".join("1" if each else "0" for each in solved)
    return {
        "role": role,
        "task": task,
        "arm": role,
        "n": len(solved),
        "solved": digits,
        "million_operations": list(operations),
    }


def test_the_third_plan_asks_for_answers_and_price_on_both_tasks() -> None:
    n = 1000
    half = [place % 2 == 0 for place in range(n)]
    more = [yes or place % 25 == 1 for place, yes in enumerate(half)]
    rows = [
        row
        for task, cost in ((price.SHORT, 25), (price.LONG, 20))
        for row in (
            priced("saber", task, half, [100] * n),
            priced("default", task, more, [cost] * n),
            priced("wide", task, more, [1.2 * cost] * n),
            priced("without", task, half, [0.9 * cost] * n),
            priced("without", task, half, [1.1 * cost] * n),
        )
    ]
    rows += [
        priced("rollback", price.SUDOKU, half, [5] * n),
        priced("without", price.SUDOKU, half, [5] * n),
    ]
    tests = price.judged(rows)
    assert len(tests) == price.TESTS
    assert [test["holds"] for test in tests] == [True] * 6 + [False]
    assert [test["points"] for test in tests[:3]] == pytest.approx([2.0] * 3), "20 of 1,000"
    assert [each["holds"] for each in price.prices(rows)] == [True, None, True] * 2
    assert price.succeeded(rows)
    dearer = [
        {**row, "million_operations": [23] * n}
        if (row["task"], row["role"]) == (price.LONG, "default")
        else row
        for row in rows
    ]
    assert not price.succeeded(dearer), "above 0.22"
    worse = [{**row, "solved": "0" * n} if row["role"] == "wide" else row for row in rows]
    assert not price.succeeded(worse)
    short = [row for row in rows if row["task"] == price.SHORT]
    assert not price.succeeded(short), "half of the plan"
    alone = price.judged(short)
    assert len(alone) == 3
    assert all(test["adjusted"] >= 5 * test["p"] for test in alone[:1])


def test_the_third_plan_is_the_committed_one() -> None:
    plan = (REPOSITORY / "docs" / "plans" / "confirm-price.md").read_text(encoding="utf-8")
    for arms in price.ARMS.values():
        for arm in arms:
            assert f"`{arm.method}`" in plan, arm.method
    for number in (*price.PROBLEMS.values(), *price.MOST_COST.values(), price.MOST_WIDER):
        assert f"{number:,}" in plan or f"{number:.2f}" in plan, number


def test_arms_stand_beside_the_best_that_never_take_back_at_their_own_cost() -> None:
    half, most = [place % 2 == 0 for place in range(40)], [place % 4 > 0 for place in range(40)]
    rows = [
        {"model": "pocket", **priced(role, "pocket-dev", solved, [cost] * 40)}
        for role, solved, cost in (
            ("saber", most, 100),
            ("rollback", most, 20),
            ("without", half, 10),
            ("without", most, 30),
            ("without", half, 35),
        )
    ]
    wide = {"model": "pocket", "task": "pocket-dev", "role": "wide", "arm": "256"}
    (found,) = frontier.groups([*rows, wide]).values()
    assert [row["cost"] for row in found] == [1.0, 0.2, 0.1, 0.3, 0.35]
    assert [row.get("gain") for row in found] == [0.0, 12.5, None, None, None], "half of the way"


@pytest.mark.slow
def test_all_arms_of_the_frontier_are_timed_beside_their_operations(workspace: Workspace) -> None:
    rows = frontier.measure(workspace).rows
    assert [row["arm"] for row in rows[-2:]] == [arm.label for arm in frontier.WIDER]
    assert all(row["timed"] == workspace.scale.timed and row["seconds"] > 0 for row in rows)
    saber, *others = rows
    assert (saber["speedup"], saber["speedup_predicted"]) == (1.0, 1.0)
    assert others[-2]["speedup_predicted"] < 1


@pytest.mark.slow
def test_gaps_by_length_rule_decoder_and_cache(workspace: Workspace) -> None:
    rows = infill.measure(workspace).rows
    assert len(rows) == len(infill.TASKS) * len(infill.RULES) * len(infill.DECODERS)
    for row in rows:
        assert row["cost_cached"] <= row["cost_full"] * 1.001
        assert row["of_full"] == pytest.approx(row["cost_cached"] / row["cost_full"])
        assert (row["probed"] > 0) is (row["rule"] == "search")
        points = row["solved_cached"] - row["solved_full"]
        assert points == pytest.approx(100 * (row["won"] - row["lost"]) / row["n"])
    usual = [row for row in rows if (row["rule"], row["decoder"]) == ("oracle", "Saber")]
    assert [row["cost_full"] for row in usual] == [1.0] * len(infill.TASKS)
    (first,) = {row["tokens"] for row in rows if row["rule"] == "8"}
    assert first == 8
    pooled = infill.pooled(rows)
    assert pooled["won"] - pooled["lost"] == pytest.approx(pooled["difference"] * pooled["n"] / 100)


@given(
    st.tuples(st.floats(0.1, 1), st.floats(0.2, 0.8), st.floats(0.02, 0.3), st.floats(0.05, 0.3))
)
def test_a_curve_is_found_again(numbers: tuple[float, float, float, float]) -> None:
    """From what it says itself, at every length and often; within what a grid can know."""
    height, second, slow, floor = numbers
    curve = Curve(height, 1.0, second, slow, floor)
    lengths = [*range(1, 65)] * 2
    own = gap_length.fitted(lengths, [curve.usual(each) for each in lengths])
    assert max(abs(own.usual(each) - curve.usual(each)) for each in lengths) < 0.05


def test_the_search_with_a_curve_ends_where_the_model_is_surer_than_usual() -> None:
    scores = [PUBLISHED.usual(each) for each in range(1, 30)]
    scores[10] *= 1.5
    assert gap_length.chosen(PUBLISHED, scores) == 11


def test_canvases_that_follow_the_answer_beside_fixed_ones(workspace: Workspace) -> None:
    rows = {(row["method"], row["canvas"]): row for row in length.measure(workspace).rows}
    assert rows["Saber", "64"]["cost"] == 1.0
    for method in length.METHODS:
        assert rows[method, "256"]["cost"] > rows[method, "64"]["cost"]
        assert rows[method, "256"]["growth"] > 1 == rows[method, "64"]["growth"]
        assert rows[method, "256"]["most_kilobytes"] == rows[method, "256"]["kilobytes"]
        auto = rows[method, "auto, at most 256"]
        assert auto["kilobytes"] <= auto["most_kilobytes"] <= rows[method, "256"]["kilobytes"]
        assert auto["paid"] > 0
