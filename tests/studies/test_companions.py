"""Studies that compare the bundled model with the two that were trained alike."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archer.cli.workers import processes
from archer.errors import ArcherError
from archer.loading.source import Source
from archer.runs.folder import Recorded
from archer.runs.workspace import Workspace
from archer_studies.arms import compared, in_turn
from runs.toy import untimed
from studies.tiny_workspace import tiny_workspace

pytest.importorskip("matplotlib", reason="figures come with the extra [report]")

from archer.model import Model, load
from archer.runs.executors.executor import Executor
from archer.tasks import Data
from archer_studies.arms import BLIND, SHIFTED, companion
from archer_studies.beyond import confirm, models
from archer_studies.beyond.confirm import TASKS
from archer_studies.paper import backbones, feedback
from archer_studies.registry import find_study
from archer_studies.study import result_of
from studies.tiny_workspace import PROBLEMS, Tiny


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The bundled model on tiny tasks."""
    small = tiny_workspace(tmp_path_factory.mktemp("companions"))
    return replace(small, model=load("pocket", device="cpu", dtype="float32"))


def test_only_the_bundled_model_has_companions(workspace: Workspace, tmp_path: Path) -> None:
    assert companion(tiny_workspace(tmp_path), SHIFTED) is None
    found = companion(workspace, SHIFTED)
    assert found is not None
    assert found.model.name == SHIFTED
    assert found.model.folder.shape.width == workspace.model.folder.shape.width
    assert found.out == workspace.out / SHIFTED
    assert found.executor is None


def test_a_companion_computes_as_the_model_does(workspace: Workspace) -> None:
    model = load("pocket", device="cpu", dtype="float64", quantize="int8", threads=1, compiled=True)
    found = companion(replace(workspace, model=model), SHIFTED)
    assert found is not None
    other = found.model
    assert other.network.scheme == "int8"
    assert other.network.dtype == model.network.dtype
    assert (other.threads, other.source.compiled) == (1, True)


@pytest.mark.slow
def test_a_companion_gets_workers_of_its_own(workspace: Workspace, tmp_path: Path) -> None:
    asked: list[str] = []
    with processes(Source(BLIND, device="cpu", dtype="float32"), workspace.model, 2) as executor:

        def hire(model: Model) -> Executor:
            asked.append(model.name)
            return executor

        found = companion(replace(workspace, out=tmp_path, hire=hire), BLIND)
        assert found is not None
        there = found.arm("saber")
    here = companion(workspace, BLIND)
    assert here is not None
    assert asked == [BLIND]
    texts = [
        [each.tokens for each in arm.run.recorded.samples.values()]
        for arm in (there, here.arm("saber"))
    ]
    assert texts[0] == texts[1]


@pytest.mark.slow
def test_both_kinds_of_logits_have_scores(workspace: Workspace) -> None:
    result = json.loads(json.dumps(result_of(find_study("backbones"), workspace)))
    rows = result["rows"]
    assert [row["backbone"] for row in rows[::2]] == [
        "LLaDAModelLM, pocket",
        "DreamModel, pocket-dream",
    ]
    assert all("base" in row and "speedup" in row for row in rows)
    assert "one training" in backbones.present(result).tables[0].notes[0]


@pytest.mark.slow
def test_the_second_plan_tests_one_model_and_tells_of_the_other(workspace: Workspace) -> None:
    for name in TASKS:
        workspace._tasks[name] = type("Planned", (Tiny,), {"name": name})(Data())
    result = json.loads(json.dumps(result_of(confirm.SECOND, workspace)))
    rows = result["rows"]
    assert [row["model"] for row in rows] == ["pocket"] * 6 + [SHIFTED] * 6
    found = confirm.judged(confirm.DOUBT, rows, result["settings"]["tested"])
    assert {row["model"] for row in found} == {"pocket"}
    assert len(found) == len(confirm.DOUBT.rules) * len(TASKS)
    tests, *told = confirm.SECOND.present(result).tables
    assert (len(tests.rows), len(told)) == (4, 4)
    assert sum(SHIFTED in table.title for table in told) == 2
    assert any("0" in row["as_saber"] for row in rows), "arms that never differ test nothing"


def test_the_blind_model_is_compared_with_the_seeing_one(workspace: Workspace) -> None:
    rows = feedback.trained_rows(workspace)
    assert len(rows) == 2 * len(feedback.WAYS)
    short = [row for row in rows if row["task"] == "tiny"]
    assert [row["n"] for row in short] == [PROBLEMS] * len(feedback.WAYS)
    assert [short[0][name] for name in ("cost", "base_only", "base_only_other")] == [1.0, 0, 0]
    for row in short:
        assert (row["full_passes"] == 1) == (row["model"] == BLIND)
    table = feedback.trained_table(json.loads(json.dumps(rows)))
    assert table is not None
    assert len(table.rows) == len(rows)
    assert feedback.trained_table([{"part": "pair"}]) is None


def test_a_model_without_a_companion_has_no_such_rows(tmp_path: Path) -> None:
    assert feedback.trained_rows(tiny_workspace(tmp_path)) == []


def test_every_bundled_model_is_scored_on_dev(workspace: Workspace) -> None:
    result = json.loads(json.dumps(result_of(find_study("models"), workspace)))
    assert [row["model"] for row in result["rows"]] == ["pocket", SHIFTED, BLIND]
    assert result["settings"]["task"] == "tiny-dev"
    assert len(models.present(result).tables[0].rows) == 3


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return tiny_workspace(tmp_path_factory.mktemp("workspace"))


def test_the_first_problems_are_timed(small: Workspace) -> None:
    arms = {"saber": small.arm("saber"), "archer": small.arm("archer", radius=4)}
    timed = in_turn(small, arms)
    for label, arm in timed.items():
        assert list(arm.in_turn) == arm.keys[: small.scale.timed]
        assert all(seconds > 0 for seconds in arm.in_turn.values())
        assert arm.run == arms[label].run
    row = compared(timed["archer"], "Archer", timed["saber"], small.model)
    assert row["timed"] == small.scale.timed
    assert row["speedup"] == pytest.approx(
        sum(timed["saber"].in_turn.values()) / sum(timed["archer"].in_turn.values())
    )


def test_arms_that_were_not_timed_have_no_seconds_and_no_speedup(small: Workspace) -> None:
    saber = small.arm("saber")
    row = compared(saber, "Saber", saber, small.model)
    assert not {"seconds", "timed", "speedup"} & row.keys()
    assert row["speedup_predicted"] == 1.0


def test_chosen_problems_are_timed_and_a_part_keeps_its_own(small: Workspace) -> None:
    saber = small.arm("saber")
    last = saber.keys[-1]
    timed = in_turn(small, {"saber": saber}, [last])["saber"]
    assert list(timed.in_turn) == [last]
    assert list(timed.part([last]).in_turn) == [last]
    assert not timed.part(saber.keys[:1]).in_turn


def test_another_trajectory_is_refused(tmp_path: Path) -> None:
    small = tiny_workspace(tmp_path)
    saber = small.arm("saber")
    recorded = saber.run.recorded
    changed = {
        key: sample.model_copy(update={"updates": 0}) for key, sample in recorded.samples.items()
    }
    other = replace(saber, run=replace(saber.run, recorded=Recorded(changed, recorded.grades)))
    with pytest.raises(ArcherError, match="watching the run changed its updates"):
        in_turn(small, {"saber": other})


@pytest.mark.slow
def test_an_arm_by_processes_is_the_same_arm(tmp_path: Path) -> None:
    here = tiny_workspace(tmp_path)
    source = Source(str(here.model.folder.path), device="cpu", dtype="float32")
    with processes(source, here.model, 2) as executor:
        there = replace(here, out=tmp_path / "there", executor=executor, _arms={})
        asked: dict[str, Any] = {"radius": 2}
        arms = [small.arm("archer", **asked) for small in (here, there)]
        again = there.arm("saber")
    records = [
        {key: untimed(line.model_dump()) for key, line in arm.run.recorded.samples.items()}
        for arm in arms
    ]
    assert records[0] == records[1]
    assert len(records[0]) == len(again.keys) == 3
