"""What a study is, and how its result is kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from time import monotonic
from typing import Any

from archer.pages.output import Presented
from archer.runs.workspace import Workspace

Row = dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """What a study found, as plain data."""

    n: int
    """Problems, pairs or probes: whatever the rows are about."""
    rows: Sequence[Row]
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Study:
    """A table or figure of the paper, or one beyond it."""

    name: str
    title: str
    about: str
    """What it measures, in a phrase."""
    measure: Callable[[Workspace], Measured]
    present: Callable[[Mapping[str, Any]], Presented]
    """From the result as it is kept."""
    paper: Mapping[str, Any] = field(default_factory=dict)
    """The paper's figures, with where they stand."""


def result_of(study: Study, workspace: Workspace) -> dict[str, Any]:
    """Measure, and put everything into one object."""
    started = monotonic()
    found = study.measure(workspace)
    return {
        "study": study.name,
        "title": study.title,
        "n": found.n,
        "settings": {"model": workspace.model.name, "task": workspace.task, **found.settings},
        "rows": list(found.rows),
        "paper": dict(study.paper),
        "seconds": monotonic() - started,
        "measured": datetime.now(UTC).date().isoformat(),
    }


@cache
def _papers() -> dict[str, dict[str, Any]]:
    text = files("archer_studies").joinpath("paper.json").read_text(encoding="utf-8")
    read: dict[str, dict[str, Any]] = json.loads(text)
    return read


def paper_of(study: str) -> dict[str, Any]:
    """What the paper says about a study's subject."""
    return _papers()[study]


STANDS_FOR = {"pocket": "mbpp", "pocket-long": "livecodebench"}
"""The benchmark whose published figures stand beside ours, by prompt length."""


def published(paper: Mapping[str, Any], task: str) -> Mapping[str, Any]:
    """The paper's figures for a task: its own, or those of the benchmark that a pocket task stands for."""
    found: Mapping[str, Any] = paper.get(STANDS_FOR.get(task, task), {})
    return found
