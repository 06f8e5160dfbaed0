"""What a study is, and how its result is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from archer.pages.figures import Figure
from archer.pages.tables import Table
from archer.runs.workspace import ArmRequest, Workspace

Row = dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """What a study found, as plain data."""

    n: int
    """Problems, pairs or probes: whatever the rows are about."""
    rows: Sequence[Row]
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Presented:
    """The same for people."""

    tables: Sequence[Table]
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: Sequence[str] = ()
    players: Mapping[str, Sequence[dict[str, Any]]] = field(default_factory=dict)
    """Trajectories to watch, by title: the `player_data` of one or two."""


@dataclass(frozen=True)
class Study:
    """A table or figure of the paper."""

    name: str
    title: str
    paper: Mapping[str, Any]
    """The paper's figures, with where they stand."""
    measure: Callable[[Workspace], Measured]
    present: Callable[[Mapping[str, Any]], Presented]
    """From the result as it is kept."""
    arms: Callable[[Workspace], Sequence[ArmRequest]] = lambda workspace: ()
    """Arms that other studies may want, too, so that they can be run ahead and side by side."""


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
