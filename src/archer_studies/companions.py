"""Bundled models that were trained alike: a comparison of two of them compares their architectures."""

from __future__ import annotations

from dataclasses import replace

from archer.model import Model
from archer.runs.workspace import Workspace

TRAINED = "pocket"
"""The model that the others are companions of."""
SHIFTED, BLIND = "pocket-dream", "pocket-blind"


def companion(workspace: Workspace, name: str) -> Workspace | None:
    """The same tasks with a model of the same training, computed alike, its arms in a folder of their own.

    None where the model of the workspace is another one: no comparison of equal training can be made then.
    """
    model = workspace.model
    if model.name != TRAINED:
        return None
    other = Model.open(replace(model.source, model=name))
    executor = workspace.hire(other) if workspace.hire is not None else None
    return replace(workspace, model=other, out=workspace.out / name, executor=executor)
