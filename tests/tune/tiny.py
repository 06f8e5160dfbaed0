"""A search that takes a moment: a random network, a dozen problems, no judge, few methods."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from archer.model import Model
from archer.runs.folder import Recorded
from archer.runs.workspace import Workspace
from archer.tasks import Data, Sample
from archer.tasks.base import user
from archer.tune.candidates import Candidate, given
from archer.tune.search import Search, drawn_order
from runs.toy import Quiet
from studies.tiny_workspace import TINY, Tiny

METHODS = ("archer:4", "saber+late:0.5", "factor+dual", "no-rollback", "saber+late:0.5,doubt=0.5")
FINALISTS = 3
PLENTY = 1000.0
"""Minutes: the rounds are then as large as the task allows, whatever the clock said."""


class TinyDozen(Tiny):
    """Enough problems for several rounds."""

    name = "tiny-dozen"
    dev: ClassVar[str | None] = "tiny-dozen"
    length = 8

    def samples(self) -> Sequence[Sample]:
        return [Sample(f"d{number}", user(f"Say {number}."), "", {}) for number in range(12)]


class TinyTest(TinyDozen):
    """What results are reported on."""

    name = "tiny-test"


class TinyAlone(TinyDozen):
    name = "tiny-alone"
    dev = None


class TinySealed(TinyAlone):
    name = "tiny-sealed"
    sealed = True


class Heard(Quiet):
    """Remembers rounds, too."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds: list[tuple[int, int, int, int]] = []
        self.read = 0

    def round(self, number: int, of: int, methods: int, problems: int) -> None:
        self.rounds.append((number, of, methods, problems))

    def skipped(self, problems: int) -> None:
        self.read += problems

    def begun(self, total: int, recorded: Recorded) -> None:
        super().begun(total, recorded)
        self.read += len(recorded.samples)


def tiny_search(
    model: Model,
    out: Path,
    heard: Heard,
    minutes: float = PLENTY,
    methods: Sequence[str] = METHODS,
    **changes: Any,
) -> Search:
    task = TinyDozen(Data())
    workspace = Workspace(
        model, out, TINY, heard, task=task.name, long_task=None, _tasks={task.name: task}
    )
    fields: dict[str, Any] = {
        "candidates": {each.label: each for each in given(methods, model, task.length)},
        "keys": drawn_order(task, None),
        "finalists": FINALISTS,
    }
    return Search(workspace, task.name, minutes=minutes, **fields | changes)


def one(label: str) -> dict[str, Candidate]:
    return {label: Candidate(label)}
