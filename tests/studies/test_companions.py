"""Studies that compare the bundled model with the two that were trained alike."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="figures come with the extra [report]")

from archer.cli.workers import processes
from archer.loading.source import Source
from archer.model import Model, load
from archer.runs.executors.executor import Executor
from archer.runs.workspace import Workspace
from archer.tasks import Data
from archer_studies.arms import BLIND, SHIFTED, companion
from archer_studies.beyond import confirm, models
from archer_studies.beyond.confirm import TASKS
from archer_studies.paper import backbones, feedback
from archer_studies.registry import find_study
from archer_studies.study import result_of
from studies.tiny_workspace import PROBLEMS, Tiny, tiny_workspace


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


def test_both_kinds_of_logits_have_scores(workspace: Workspace) -> None:
    result = json.loads(json.dumps(result_of(find_study("backbones"), workspace)))
    rows = result["rows"]
    assert [row["backbone"] for row in rows[::2]] == [
        "LLaDAModelLM, pocket",
        "DreamModel, pocket-dream",
    ]
    assert all("base" in row and "speedup" in row for row in rows)
    assert "one training" in backbones.present(result).tables[0].notes[0]


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
