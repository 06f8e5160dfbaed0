"""The bundled models on dev problems with LLaDA's own decoding: what each of them learnt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archer.pages.tables import Column, Table
from archer.runs.workspace import Workspace
from archer_studies.arms import described, value
from archer_studies.companions import BLIND, SHIFTED, companion
from archer_studies.refresh import MOST
from archer_studies.study import Measured, Presented, Row, Study

METHOD = "llada-confidence"


def measure(workspace: Workspace) -> Measured:
    others = [companion(workspace, name) for name in (SHIFTED, BLIND)]
    rows = [_row(each) for each in (workspace, *others) if each is not None]
    return Measured(rows[0]["n"], rows, {"task": workspace.dev_task or workspace.task})


def _row(workspace: Workspace) -> Row:
    few = min(workspace.scale.problems, MOST)
    arm = workspace.arm(METHOD, workspace.dev_task, few)
    model = workspace.model
    return {
        "model": model.name,
        "architecture": model.folder.architecture.name,
        "parameters": model.folder.parameters,
        **described(arm, "LLaDA-Confidence", model),
    }


def present(result: Mapping[str, Any]) -> Presented:
    columns = [Column("model"), Column("architecture"), Column("million parameters", 2)]
    columns += [Column("Pass@1 (%)", 1), Column("extended (%)", 1)]
    table = Table(
        f"LLaDA-Confidence on {result['settings']['task']}, n = {result['n']}",
        columns,
        [
            [
                row["model"],
                row["architecture"],
                row["parameters"] / 1e6,
                value(row, "base"),
                value(row, "extended"),
            ]
            for row in result["rows"]
        ],
        [
            "Extended: the hidden tests as well. The loaded model alone where it is not the bundled one."
        ],
    )
    return Presented([table])


STUDY = Study(
    name="models",
    title="The bundled models",
    paper={},
    measure=measure,
    present=present,
)
