"""Every study on a tiny workspace: it measures, its result survives JSON, its tables follow from that."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from archer.errors import ArcherError, BadRequest
from archer.runs.folder import Recorded
from archer.runs.workspace import Workspace
from archer_studies.paper import main
from archer_studies.probes.trajectories import decoded_again
from archer_studies.registry import STUDIES, find_study
from archer_studies.study import result_of
from studies.tiny_workspace import PROBLEMS, Hopeless, tiny_workspace

Results = dict[str, dict[str, Any]]
OURS = [name for name in STUDIES if name not in ("feedback", "validity", "theory")]
"""Those that probe single passes have tests of their own."""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Shared, so that each arm runs once."""
    return tiny_workspace(tmp_path_factory.mktemp("workspace"))


@pytest.fixture(scope="module")
def results(workspace: Workspace) -> Results:
    return {name: result_of(find_study(name), workspace) for name in OURS}


def numbers(value: Any) -> Iterator[float]:
    """All numbers in plain data."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from numbers(each)
    elif isinstance(value, int | float):
        yield value


def test_an_unknown_study_is_refused_by_name() -> None:
    with pytest.raises(BadRequest, match=r"no study 'nothing'.*main, backbones"):
        find_study("nothing")


@pytest.mark.parametrize("name", OURS)
def test_a_result_is_plain_finite_and_presented_from_json_alone(
    name: str, results: Results
) -> None:
    study, result = STUDIES[name], results[name]
    assert {"study", "n", "settings", "rows", "paper", "seconds"} <= result.keys()
    assert result["n"] > 0
    read = json.loads(json.dumps(result, allow_nan=False))
    assert list(numbers(read["rows"]))
    presented = study.present(read)
    assert all("n = " in table.title or _has_n(table.columns) for table in presented.tables)
    assert name == "cases" or all(table.rows for table in presented.tables)
    assert presented.section(study.title).parts


def _has_n(columns: Any) -> bool:
    return "n" in [column.name for column in columns]


def test_arms_are_shared_between_studies(workspace: Workspace, results: Results) -> None:
    """Saber ran once on each task, whatever asked for it."""
    assert results
    folders = [path.name for path in (workspace.out / "arms").iterdir()]
    assert (
        sum(name.startswith("tiny-saber-") for name in folders)
        - sum(name.startswith("tiny-saber-age-") for name in folders)
        == 1
    )
    assert sum(name.startswith("tiny-long-saber-") for name in folders) == 1


def test_main_has_every_method_on_every_task_and_overall(results: Results) -> None:
    rows = results["main"]["rows"]
    tasks = [row["task"] for row in rows]
    assert tasks == [name for name in ("tiny", "tiny-long", "overall") for _ in main.METHODS]
    by_method = {row["method"]: row for row in rows if row["task"] == "tiny"}
    assert by_method["llada-confidence"]["speedup"] == 1.0
    assert by_method["saber"]["saber_base_p"] == 1.0
    assert by_method["fast-dllm-cache"]["full_passes"] == 1
    assert by_method["no-rollback+archer"]["cached_passes"] > 0
    assert results["main"]["settings"]["methods"]["tiny"]["archer"]["radius"] == 8
    # eager confidence decoding computes everything, so no cache is predicted to be slower
    assert all(by_method[name]["speedup_predicted"] >= 1.0 for name in ("dkv-decode", "dllm-cache"))


def test_nothing_is_revised_without_rollback(workspace: Workspace, results: Results) -> None:
    """And with it as much as the runs themselves have counted."""
    none, *others = results["rollback"]["rows"]
    assert (none["revised"], none["revised_ever"], none["remasks"]) == (0.0, 0.0, 0)
    assert none["changed"] is None
    for row, arm in zip(
        others, (workspace.arm("saber"), workspace.arm("archer", radius=8)), strict=True
    ):
        counted = (arm.summary.per_problem["revised_positions"] or 0.0) / workspace.open().length
        assert row["revised"] == pytest.approx(100.0 * counted)
        assert row["revised"] <= row["revised_ever"] <= 100.0


def test_a_radius_of_one_is_as_eager_as_saber(results: Results) -> None:
    first = next(row for row in results["radius"]["rows"] if row["radius"] == "1")
    assert first["same_completions"] == PROBLEMS


def test_passes_of_every_kind_add_up(results: Results) -> None:
    for row in results["cache-use"]["rows"]:
        assert row["full"] + row["cached"] + row["reused"] == pytest.approx(100.0)
        assert row["full"] == pytest.approx(100.0 * row["refresh_fraction"])


def test_random_backbones_have_costs_and_no_scores(results: Results) -> None:
    rows = results["backbones"]["rows"]
    assert ["base" in row for row in rows] == [True, True, False, False, False, False]
    assert [row["backbone"].partition(",")[0] for row in rows[2:]] == [
        "LLaDAModelLM",
        "LLaDAModelLM",
        "DreamModel",
        "DreamModel",
    ]
    assert all(row["speedup_predicted"] > 1.0 for row in rows if row["method"] == "archer")


def test_ages_cost_about_what_their_radius_costs(results: Results) -> None:
    rows = results["age"]["rows"]
    assert {row["decoder"] for row in rows} == {"saber", "wino"}
    for distance, age in pairwise(rows):
        if distance["rule"].startswith("distance"):
            assert age["rule"].startswith("age")
            assert abs(distance["refresh_fraction"] - age["refresh_fraction"]) < 0.25


def test_the_limit_of_a_cached_update_grows_with_the_prompt(results: Results) -> None:
    limits = [row["limit"] for row in results["prompt-length"]["rows"][:-1]]
    assert limits == sorted(limits)
    assert limits[0] > 1.0


@pytest.fixture(scope="module")
def hopeless(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return tiny_workspace(tmp_path_factory.mktemp("hopeless"), Hopeless)


@pytest.mark.parametrize("name", ["cross-domain", "rollback"])
def test_a_model_that_solves_nothing_is_presented(name: str, hopeless: Workspace) -> None:
    result = result_of(find_study(name), hopeless)
    presented = find_study(name).present(json.loads(json.dumps(result)))
    assert presented.tables[0].rows
    assert all(row.get("base", 0.0) == 0.0 for row in result["rows"])


def test_without_exclusive_problems_there_are_no_cases(hopeless: Workspace) -> None:
    result = result_of(find_study("cases"), hopeless)
    assert result["rows"] == [{"kind": "counts", "only_saber": 0, "only_archer": 0, "p": 1.0}]
    presented = find_study("cases").present(result)
    assert presented.notes == ("No problem was solved by one of the two methods alone.",)
    assert (list(presented.tables[0].rows), presented.players) == ([], {})


def test_a_trajectory_that_differs_from_its_run_is_refused(workspace: Workspace) -> None:
    arm = workspace.arm("saber")
    key, recorded = arm.keys[0], arm.run.recorded
    samples = {
        **recorded.samples,
        key: recorded.samples[key].model_copy(update={"updates": -1, "tokens": [0]}),
    }
    other = replace(arm.run, recorded=Recorded(samples, recorded.grades))
    assert next(decoded_again(workspace, arm))[0] == key
    with pytest.raises(ArcherError, match=f"Problem {key}: .* changed its updates, tokens"):
        next(decoded_again(workspace, replace(arm, run=other)))


def test_fewer_updates_for_more_tokens_at_once(results: Results) -> None:
    rows = results["parallel"]["rows"]
    assert [row["updates"] for row in rows[:5]] == [16, 8, 4, 2, 1]
    assert all(row["revised"] == 0 for row in rows[:6])
    assert (rows[0]["base_only"], rows[0]["base_only_other"], rows[0]["base_p"]) == (0, 0, 1.0)
