"""The protocol of executors, and the one that stays in this process."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from archer.runs.decoding import Prompts, decode
from archer.runs.manifest import RunRequest
from archer.runs.records import SampleLine
from archer.tasks.base import Sample

Tell = Callable[[str], None]
"""Takes one line for the user."""


@dataclass(frozen=True)
class Completed:
    """A problem with the record of its completion."""

    sample: Sample
    record: SampleLine
    worker: int
    """Whose work it is, counted from 1."""


class Executor(Protocol):
    """Completes problems."""

    @property
    def workers(self) -> int:
        """How many of them work side by side."""
        ...

    @property
    def description(self) -> Mapping[str, Any]:
        """What the circumstances of a run say of it."""
        ...

    def completions(
        self,
        request: RunRequest,
        samples: Sequence[Sample],
        prompts: Prompts,
        traces: Mapping[str, Path],
        tell: Tell,
    ) -> Generator[Completed, None, None]:
        """Every problem once, in any order, its trace first; closed early, the rest is given up."""
        ...


class Inline:
    """Completes problems here, in order."""

    workers = 1
    description: Mapping[str, Any] = {"kind": "inline"}

    def completions(
        self,
        request: RunRequest,
        samples: Sequence[Sample],
        prompts: Prompts,
        traces: Mapping[str, Path],
        tell: Tell,
    ) -> Generator[Completed, None, None]:
        for sample, record in decode(request, samples, prompts, traces):
            yield Completed(sample, record, worker=1)
