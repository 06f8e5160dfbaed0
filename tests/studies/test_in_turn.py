"""Times of arms that decode the same problems in turn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from archer.errors import ArcherError
from archer.runs.folder import Recorded
from archer.runs.workspace import Workspace
from archer_studies.arms import against, described, in_turn
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
    row = described(timed["archer"], "Archer", workspace.model)
    row |= against(timed["archer"], timed["saber"], workspace.model)
    assert row["timed"] == workspace.scale.timed
    assert row["speedup"] == pytest.approx(
        sum(timed["saber"].in_turn.values()) / sum(timed["archer"].in_turn.values())
    )


def test_arms_that_were_not_timed_have_no_seconds_and_no_speedup(workspace: Workspace) -> None:
    saber = workspace.arm("saber")
    row = described(saber, "Saber", workspace.model) | against(saber, saber, workspace.model)
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
