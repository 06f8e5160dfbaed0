"""Problems decoded once more and watched, which must change nothing; and what a trajectory tells.

Axes: G response columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from archer.engine.stream import Stream
from archer.errors import ArcherError
from archer.model import Model
from archer.pages.trajectory import Trajectory, rows
from archer.passes.work import Work, operations
from archer.results import trace
from archer.results.completion import Completion
from archer.runs.workspace import Arm, Workspace
from archer_studies.shadow_passes import require_unchanged


@dataclass(frozen=True)
class Told:
    """One problem decoded with a witness."""

    trajectory: Trajectory
    completion: Completion
    operations: int
    """Multiplications and additions of all its passes, as they were made."""

    @property
    def states(self) -> list[list[int]]:
        """The response before the first update and after each one."""
        start = self.trajectory.start
        masks = [start.mask] * start.length
        return [masks, *trace.states(start, self.trajectory.updates)]


def tell(model: Model, prompt: Sequence[int], method: str, settings: Mapping[str, Any]) -> Told:
    """Decode one prompt and keep every event."""
    request = model.request([list(prompt)], method, settings=settings)
    stream, work = Stream(model, request), Work()
    for step in stream:
        work += step.work
    (completion,) = stream.finish()
    if completion.error is not None:
        raise ArcherError(f"{method} cannot be watched to its end: {completion.error}")
    (trajectory,) = rows(completion.trace().events)
    return Told(trajectory, completion, operations(work, model.folder.shape))


def retell(
    workspace: Workspace, arm: Arm, keys: Sequence[str] | None = None
) -> Iterator[tuple[str, Told]]:
    """Problems of an arm, all by default, decoded once more; refuses anything that differs from the run."""
    request = workspace.again(arm)
    prompts = workspace.prompts(request)
    for key in arm.keys if keys is None else keys:
        found = tell(workspace.model, prompts[key], request.method, request.settings)
        require_unchanged(arm, key, found.completion)
        yield key, found


def revised_between(states: Sequence[Sequence[int]], mask: int) -> set[int]:
    """Positions that lose or change a token from one state to the next."""
    return {
        at
        for before, after in pairwise(states)
        for at, (old, new) in enumerate(zip(before, after, strict=True))
        if old not in (mask, new)
    }


def revised_ever(updates: Sequence[trace.Update]) -> set[int]:
    """The same, with tokens that are placed and taken back inside one update."""
    taken = {at for event in updates for at in event.remasked}
    return taken | {change.at for event in updates for change in event.replaced}


def taken_back(start: trace.Start, updates: Sequence[trace.Update]) -> list[tuple[int, int]]:
    """Position and token of every re-mask, in order."""
    response = [start.mask] * start.length
    found = []
    for event in updates:
        for change in (*event.accepted, *event.replaced):
            response[change.at] = change.token
        for at in event.remasked:
            found.append((at, response[at]))
            response[at] = start.mask
    return found
