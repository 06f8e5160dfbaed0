"""`archer view`: a recorded run as a page on which the response revises itself."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from archer.cli.messages import complain
from archer.cli.output import write_line
from archer.errors import BadRequest
from archer.files import check_target, replace_file

if TYPE_CHECKING:
    from archer.pages.trajectory import Trajectory

UNOPENED = 1


def view(
    trace: Path,
    other: Path | None = None,
    *,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    browse: Annotated[bool, Parameter(name="--open")] = False,
) -> int:
    """Make a page on which recorded trajectories can be watched, one or two side by side.

    Args:
        trace: File written by archer generate --trace.
        other: A second trace of the same prompts, shown beside the first from where they diverge.
        output: The page to write [default: the trace's name with .html].
        browse: Open the page in a browser.
    """
    target = trace.with_suffix(".html") if output is None else output
    if target in (trace, other):
        raise BadRequest(f"The page would overwrite the trace {str(target)!r}. Choose another -o.")
    check_target(target)
    content = _page([trace] if other is None else [trace, other])
    replace_file(target, content.encode())
    write_line(str(target))
    if browse and not webbrowser.open(target.resolve().as_uri()):
        complain("No browser could be started; open the page by hand.")
        return UNOPENED
    return 0


def _page(traces: list[Path]) -> str:
    """A player per prompt, the first one open."""
    from archer.pages.page import Player, Section, page
    from archer.pages.player import player_data
    from archer.pages.trajectory import check_pair, trajectories

    runs = [trajectories(path) for path in traces]
    if len({len(rows) for rows in runs}) > 1:
        raise BadRequest(
            "The two traces have different numbers of prompts. Record both with the same prompts."
        )
    players = []
    for row, beside in enumerate(zip(*runs, strict=True)):
        if len(beside) > 1:
            check_pair(*beside)
        title = _title(beside[0])
        players.append(Player(title, [player_data(each) for each in beside], opened=row == 0))
    names = " and ".join(path.name for path in traces)
    return page(f"Archer · {names}", [Section("", players)])


def _title(trajectory: Trajectory) -> str:
    count = len(trajectory.start.prompts)
    which = f"Prompt {trajectory.row + 1} of {count}: " if count > 1 else ""
    written = trajectory.given.count(trajectory.start.mask)
    given = len(trajectory.prompt) + len(trajectory.given) - written
    return f"{which}{given} tokens in, {written} out"
