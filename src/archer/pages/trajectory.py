"""A trace file as trajectories, one per row, whose lines are checked to tell one story."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from archer.errors import BadRequest, BadTrace
from archer.results.trace import End, Start, Update, read


@dataclass
class Trajectory:
    """One row of a trace."""

    start: Start
    row: int
    updates: list[Update] = field(default_factory=list)
    completion: dict[str, Any] | None = None
    """How the row ended; None where the trace stops before."""
    pieces: dict[int, str] = field(default_factory=dict)
    """How ids look; shared by the rows of a trace, and empty for a model without a tokenizer."""

    @property
    def prompt(self) -> list[int]:
        return self.start.prompts[self.row]

    @cached_property
    def given(self) -> list[int]:
        """The response before the first update."""
        return self.start.response(self.row)


def trajectories(path: Path) -> list[Trajectory]:
    """All rows of a trace file."""
    try:
        return rows(read(path))
    except _Broken as error:
        raise BadTrace(f"The trace {str(path)!r} is inconsistent: {error}.") from error


def rows(events: Iterable[Start | Update | End]) -> list[Trajectory]:
    """All rows of a run, from its events."""
    stream = iter(events)
    start = next(stream, None)
    if not isinstance(start, Start):
        raise _Broken("it does not begin with a start event")
    pieces = dict(start.pieces or {})
    trajectories = [Trajectory(start, row, pieces=pieces) for row in range(len(start.prompts))]
    for event in stream:
        if isinstance(event, Start):
            raise _Broken("it has a second start event")
        if not 0 <= event.row < len(trajectories):
            raise _Broken(f"row {event.row} has no prompt")
        _add(trajectories[event.row], event)
    return trajectories


def check_pair(first: Trajectory, second: Trajectory) -> None:
    """Refuse to compare what has no common beginning."""
    same = (first.prompt, first.given, first.start.mask) == (
        second.prompt,
        second.given,
        second.start.mask,
    )
    if not same:
        raise BadRequest(
            f"Row {first.row + 1} of the two traces cannot be compared: prompt, response length and mask id "
            "must be the same. Record both with the same prompts and length."
        )


def _add(trajectory: Trajectory, event: Update | End) -> None:
    row = trajectory.row
    if trajectory.completion is not None:
        raise _Broken(f"row {row} goes on after its end")
    if isinstance(event, End):
        trajectory.completion = event.completion
        return
    if event.update != len(trajectory.updates) + 1:
        raise _Broken(f"update {len(trajectory.updates) + 1} of row {row} is missing")
    places = [*event.remasked, *(change.at for change in (*event.accepted, *event.replaced))]
    if not all(0 <= at < len(trajectory.given) for at in places):
        raise _Broken(f"update {event.update} of row {row} writes outside the response")
    if any(trajectory.given[at] != trajectory.start.mask for at in places):
        raise _Broken(f"update {event.update} of row {row} writes where a token is given")
    if event.stop is not None and not 0 < event.stop <= len(trajectory.given):
        raise _Broken(f"update {event.update} of row {row} stops outside the response")
    if len(event.doubts) != len(event.remasked):
        raise _Broken(
            f"update {event.update} of row {row} has different numbers of doubts and re-masks"
        )
    trajectory.updates.append(event)
    trajectory.pieces.update(event.pieces or {})


class _Broken(BadTrace):
    """The reason alone, where no file is known."""
