"""What a study is, and how its result is kept."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Protocol

from archer.files import bundled_json
from archer.pages.page import Presented
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


class StudyModule(Protocol):
    """What the module of a study defines."""

    TITLE: str
    ABOUT: str

    def measure(self, workspace: Workspace) -> Measured: ...
    def present(self, result: Mapping[str, Any]) -> Presented: ...


FEW = 30
"""Problems below which no table has a winner."""


def study_of(name: str, module: StudyModule, *, repeats: bool = False) -> Study:
    """`repeats`: its n counts repetitions of a timed call, and not problems."""

    def present(result: Mapping[str, Any]) -> Presented:
        return _with_doubts(module.present(result), FEW if repeats else result["n"])

    return Study(name, module.TITLE, module.ABOUT, module.measure, present)


def _with_doubts(presented: Presented, n: int) -> Presented:
    """Every table of few problems says so first, before anybody reads a winner out of it."""
    if n >= FEW:
        return presented
    note = f"n = {n} is too few to tell which is better: this only shows that everything works."
    tables = [replace(each, notes=[note, *each.notes]) for each in presented.tables]
    return replace(presented, tables=tables)


def result_of(study: Study, workspace: Workspace) -> dict[str, Any]:
    """Measure, and put everything into one object."""
    started = monotonic()
    measured = study.measure(workspace)
    return {
        "study": study.name,
        "title": study.title,
        "n": measured.n,
        "settings": {"model": workspace.model.name, "task": workspace.task, **measured.settings},
        "rows": list(measured.rows),
        "paper": paper_of(study.name),
        "seconds": monotonic() - started,
        "measured": datetime.now(UTC).date().isoformat(),
    }


def paper_of(study: str) -> dict[str, Any]:
    """The paper's figures about a study's subject, with where they stand; it may have none."""
    figures: dict[str, Any] = bundled_json("archer_studies", "paper.json").get(study, {})
    return figures


STANDS_FOR = {"pocket": "mbpp", "pocket-long": "livecodebench"}
"""The benchmark whose published figures stand beside ours, by prompt length."""


def published(paper: Mapping[str, Any], task: str) -> Mapping[str, Any]:
    """The paper's figures for a task: its own, or those of the benchmark that a pocket task stands for."""
    figures: Mapping[str, Any] = paper.get(STANDS_FOR.get(task, task), {})
    return figures
