"""Arms: their times when they decode the same problems in turn, and the same records by processes."""

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


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return tiny_workspace(tmp_path_factory.mktemp("workspace"))


def test_the_first_problems_are_timed(workspace: Workspace) -> None:
    arms = {"saber": workspace.arm("saber"), "archer": workspace.arm("archer", radius=4)}
    timed = in_turn(workspace, arms)
    for label, arm in timed.items():
        assert list(arm.in_turn) == arm.keys[: workspace.scale.timed]
        assert all(seconds > 0 for seconds in arm.in_turn.values())
        assert arm.run == arms[label].run
    row = compared(timed["archer"], "Archer", timed["saber"], workspace.model)
    assert row["timed"] == workspace.scale.timed
    assert row["speedup"] == pytest.approx(
        sum(timed["saber"].in_turn.values()) / sum(timed["archer"].in_turn.values())
    )


def test_arms_that_were_not_timed_have_no_seconds_and_no_speedup(workspace: Workspace) -> None:
    saber = workspace.arm("saber")
    row = compared(saber, "Saber", saber, workspace.model)
    assert not {"seconds", "timed", "speedup"} & row.keys()
    assert row["speedup_predicted"] == 1.0


def test_chosen_problems_are_timed_and_a_part_keeps_its_own(workspace: Workspace) -> None:
    saber = workspace.arm("saber")
    last = saber.keys[-1]
    timed = in_turn(workspace, {"saber": saber}, [last])["saber"]
    assert list(timed.in_turn) == [last]
    assert list(timed.part([last]).in_turn) == [last]
    assert not timed.part(saber.keys[:1]).in_turn


def test_another_trajectory_is_refused(tmp_path: Path) -> None:
    workspace = tiny_workspace(tmp_path)
    saber = workspace.arm("saber")
    recorded = saber.run.recorded
    changed = {
        key: sample.model_copy(update={"updates": 0}) for key, sample in recorded.samples.items()
    }
    other = replace(saber, run=replace(saber.run, recorded=Recorded(changed, recorded.grades)))
    with pytest.raises(ArcherError, match="watching the run changed its updates"):
        in_turn(workspace, {"saber": other})


def test_an_arm_by_processes_is_the_same_arm(tmp_path: Path) -> None:
    here = tiny_workspace(tmp_path)
    source = Source(str(here.model.folder.path), device="cpu", dtype="float32")
    with processes(source, here.model, 2) as executor:
        there = replace(here, out=tmp_path / "there", executor=executor, _arms={})
        asked: dict[str, Any] = {"radius": 2}
        arms = [workspace.arm("archer", **asked) for workspace in (here, there)]
        again = there.arm("saber")
    records = [
        {key: untimed(line.model_dump()) for key, line in arm.run.recorded.samples.items()}
        for arm in arms
    ]
    assert records[0] == records[1]
    assert len(records[0]) == len(again.keys) == 3
