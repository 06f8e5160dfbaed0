"""A result for people as files: the tables in three formats, the figures in two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archer.files import replace_file
from archer.pages.figures import Figure
from archer.pages.page import Part, Player, Section
from archer.pages.tables import Table


@dataclass(frozen=True)
class Presented:
    """Tables, figures and remarks about one result."""

    tables: Sequence[Table]
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: Sequence[str] = ()
    players: Mapping[str, Sequence[dict[str, Any]]] = field(default_factory=dict)
    """Trajectories to watch, by title: the `player_data` of one or two."""

    def section(self, title: str) -> Section:
        """The same as a folded part of a page."""
        parts: list[Part] = [*self.notes, *self.tables, *self.figures.values()]
        parts += [Player(each, runs) for each, runs in self.players.items()]
        return Section(title, parts, folded=True)


def write_files(folder: Path, name: str, presented: Presented) -> None:
    """Tables and figures under names that begin with `name`."""
    for file, content in files_of(name, presented):
        replace_file(folder / file, content)


def files_of(name: str, presented: Presented) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file; the same result gives the same bytes."""
    for number, table in enumerate(presented.tables, start=1):
        stem = name if number == 1 else f"{name}-{number}"
        yield f"{stem}.md", table.markdown().encode()
        yield f"{stem}.csv", table.csv().encode()
        yield f"{stem}.tex", table.latex().encode()
    for what, figure in presented.figures.items():
        if figure.svg:
            yield f"{name}-{what}.svg", figure.svg.encode()
            yield f"{name}-{what}.png", figure.png
