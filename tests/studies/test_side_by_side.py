"""Reproducing with several processes: shared arms first and once, then the studies, each with its report."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from archer.cli import main
from archer.errors import ArcherError
from archer.runs.executors.dispatch import WorkersLost
from archer.runs.workspace import ArmRequest, Workspace
from archer_studies import side_by_side
from archer_studies.registry import STUDIES
from archer_studies.study import Measured, Presented, Study
from studies.tiny_workspace import PROBLEMS, tiny_workspace


@dataclass(frozen=True)
class Tiny:
    """Where the workspace of a test is."""

    folder: Path

    def workspace(self) -> Workspace:
        return tiny_workspace(self.folder)


@contextmanager
def threads(workers: int) -> Iterator[Executor]:
    """In this process, so that a test's studies are known in it; one by one: workspaces are not shared."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def counted(workspace: Workspace) -> Measured:
    """What arms there are when the study begins."""
    return Measured(1, [{"arms": len(list((workspace.out / "arms").iterdir()))}], {})


def fail(workspace: Workspace) -> Measured:
    raise ArcherError("it broke")


def nothing(result: object) -> Presented:
    return Presented([])


def wanted(workspace: Workspace) -> list[ArmRequest]:
    return [ArmRequest("saber"), ArmRequest("saber", task="tiny-long", problems=2)]


GOOD = Study("good", "Good", {}, counted, nothing, arms=wanted)
ALSO = Study("also", "Also", {}, counted, nothing, arms=wanted)
BAD = Study("bad", "Bad", {}, fail, nothing, arms=lambda workspace: [ArmRequest("no such method")])


def test_shared_arms_come_first_and_failures_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for study in (GOOD, ALSO, BAD):
        monkeypatch.setitem(STUDIES, study.name, study)
    monkeypatch.setattr(side_by_side, "_pool", threads)
    place, said = Tiny(tmp_path), list[str]()
    workspace = place.workspace()
    failed = side_by_side.reproduce_together(
        place, workspace, ["good", "also", "bad"], 2, said.append
    )
    assert failed == {"bad": "it broke"}
    assert f"1 of 3 shared arms: saber on tiny, {PROBLEMS} problems." in said
    assert "2 of 3 shared arms: saber on tiny-long, 2 problems." in said
    assert any("3 of 3 shared arms: no such method on tiny: " in line for line in said)
    assert sorted(said[3:]) == ["also: done in 0 s.", "bad: failed: it broke", "good: done in 0 s."]
    assert '"arms": 2' in (workspace.out / "good.json").read_text()
    assert b"Also" in (workspace.out / "report.html").read_bytes()
    again: list[str] = []
    assert (
        side_by_side.reproduce_together(place, workspace, ["good", "also"], 2, again.append) == {}
    )
    assert again == ["good: done already.", "also: done already."]


def test_every_declared_arm_is_one_that_the_study_asks_for(tmp_path: Path) -> None:
    """Running them ahead leaves nothing that two studies would run at once."""
    workspace = tiny_workspace(tmp_path)
    declaring = [study for study in STUDIES.values() if study.arms(workspace)]
    assert {study.name for study in declaring} == {"main", "radius", "validity"}
    for study in declaring:
        for each in study.arms(workspace):
            workspace.run(each)
        before = set((workspace.out / "arms").iterdir())
        study.measure(workspace)
        assert set((workspace.out / "arms").iterdir()) == before, study.name


def test_a_killed_process_ends_the_reproduction_with_a_sentence() -> None:
    with (
        pytest.raises(WorkersLost, match=r"^One of the 2 processes of the reproduction was killed"),
        side_by_side._pool(2) as pool,
    ):
        pool.submit(os._exit, 1).result()


def test_shards_and_workers_are_refused_before_a_shard_starts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archer.cli.options.ModelOptions.load", None)
    both = ["--shards", "2", "--workers", "2", "--out", str(tmp_path / "out")]
    for command in (["study", "main"], ["reproduce"]):
        assert main([*command, *both]) == 2
        assert "--shards works with neither --workers nor --ray" in capsys.readouterr().err


def test_no_workers_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["reproduce", "--workers", "0", "--out", str(tmp_path / "out")]) == 2
    assert "--workers takes a number above 0, not 0" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
