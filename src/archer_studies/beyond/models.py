"""The bundled models on dev problems with LLaDA's own decoding: what each of them learnt."""

from collections.abc import Mapping
from typing import Any

from archer.pages.page import Presented
from archer.pages.tables import Field, table_of
from archer.runs.workspace import Workspace
from archer_studies.arms import BLIND, SCORES, SHIFTED, companion, described
from archer_studies.beyond.refresh import MOST
from archer_studies.study import Measured, Row

TITLE = "The bundled models"
ABOUT = "What each of the bundled models solves with LLaDA's own decoding"
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
    table = table_of(
        f"LLaDA-Confidence on {result['settings']['task']}, n = {result['n']}",
        (
            Field("model"),
            Field("architecture"),
            Field("", "million parameters", of=lambda row: row["parameters"] / 1e6),
            *SCORES,
        ),
        result["rows"],
        [
            "Extended: the hidden tests as well. The loaded model alone where it is not the bundled one."
        ],
    )
    return Presented([table])
