"""A generation with every update kept: what a notebook shows as the player.

    trace = model.record(prompt, method="archer")
    trace                     # in a notebook: watch it
    trace.completions[0].text

It is the same as a trace file, in memory; `save` makes the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from archer.results.completion import Completion
from archer.results.trace import End, Speller, Start, Update, Writer, retold, start

if TYPE_CHECKING:
    from archer.request.request import Request

HEIGHT = 640
"""Pixels of the player in a notebook."""


@dataclass(frozen=True, repr=False)
class Trace:
    """A recorded decoding: every update of every prompt, and how each ended."""

    events: Sequence[Start | Update | End]
    completions: Sequence[Completion] = field(default=())

    def save(self, path: Path | str) -> None:
        """Write it as a trace file, for `archer view`."""
        with Writer(Path(path)) as writer:
            for event in self.events:
                writer.write(event)

    def html(self) -> str:
        """The player as a page of its own."""
        from archer.pages.page import Player, Section, page
        from archer.pages.player import player_data
        from archer.pages.trajectory import rows

        players = [
            Player(f"Prompt {row.row + 1}", [player_data(row)], opened=row.row == 0)
            for row in rows(self.events)
        ]
        return page("", [Section("", players)])

    def _repr_html_(self) -> str:
        """In a frame, so that the styles of the page and of the notebook do not meet."""
        return (
            f'<iframe title="Archer" srcdoc="{escape(self.html())}" width="100%" height="{HEIGHT}" '
            'style="border: 0"></iframe>'
        )

    def __repr__(self) -> str:
        updates = sum(isinstance(event, Update) for event in self.events)
        rows = len(self.completions)
        summary = f"{rows} row{'s' * (rows != 1)}, {updates} update{'s' * (updates != 1)}"
        return f"Trace({summary}; a notebook shows the player)"


def of_completions(request: Request, done: Sequence[Completion]) -> Trace:
    """What happened, from what the completions of a request have kept; one for each of its prompts."""
    speller = Speller(request)
    events: list[Start | Update | End] = [start(request)]
    for row, (prompt, each) in enumerate(zip(request.prompts, done, strict=True)):
        length = prompt.length or request.method.length
        events += [speller.spelled(event) for event in retold(row, each.history, length)]
        events.append(End(row=row, completion=each.to_dict(provenance=False)))
    return Trace(tuple(events), tuple(done))
