"""The arms of a study by processes: the same records as by this one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from archer.cli.workers import processes
from archer.loading.source import Source
from runs.toy import untimed
from studies.tiny_workspace import tiny_workspace


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
