"""A page in one file, without any network: sections of paragraphs, tables, figures and players."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archer.files import replace_file
from archer.pages import embed, player
from archer.pages.figures import Figure
from archer.pages.tables import Table

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""What the browser may load: nothing but what is in the file."""


@dataclass(frozen=True)
class Player:
    """One run or two, by their `player_data`; `opened` when the page is."""

    title: str
    runs: Sequence[dict[str, Any]]
    opened: bool = False


Part = str | Table | Figure | Player
"""A text is a paragraph."""


@dataclass(frozen=True)
class Section:
    """Parts under a heading."""

    title: str
    parts: Sequence[Part]
    folded: bool = False
    """Whether it is closed until somebody opens it, or follows a link to it."""


def page(
    title: str, sections: Sequence[Section], *, lead: str = "", message: Sequence[str] = ()
) -> str:
    """The whole page: its message first, then a list of sections, unless closed ones are one."""
    numbered = list(enumerate(sections, start=1))
    contents = "".join(
        f'<li><a href="#section-{number}">{embed.text(section.title)}</a></li>'
        for number, section in numbered
    )
    listed = len(sections) > 1 and not all(section.folded for section in sections)
    nav = f'<nav aria-label="Sections"><ol>{contents}</ol></nav>\n' if listed else ""
    opening = "".join(f'<p class="message">{embed.text(each)}</p>\n' for each in message)
    opening += f'<p class="lead">{embed.text(lead)}</p>\n' if lead else ""
    body = "".join(_section(number, section) for number, section in numbered)
    plays = any(isinstance(part, Player) for section in sections for part in section.parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{embed.text(title)}</title>\n"
        f"<style>\n{embed.asset('page.css')}{player.style() if plays else ''}</style>\n</head>\n"
        f"<body>\n<header>\n<h1>{embed.text(title)}</h1>\n{opening}{nav}</header>\n"
        f"<main>\n{body}</main>\n"
        + (f"<script>\n{player.script()}</script>\n" if plays else "")
        + "</body>\n</html>\n"
    )


def _section(number: int, section: Section) -> str:
    heading = f"<h2>{embed.text(section.title)}</h2>\n" if section.title else ""
    parts = "".join(_part(part, f"{number}-{place}") for place, part in enumerate(section.parts))
    if section.folded:
        return (
            f'<section>\n<details class="folded">\n<summary>{heading}</summary>\n'
            f'<div id="section-{number}">{parts}</div>\n</details>\n</section>\n'
        )
    return f'<section id="section-{number}">\n{heading}{parts}</section>\n'


def _part(part: Part, name: str) -> str:
    match part:
        case Table():
            return part.html()
        case Figure():
            return part.html(f"figure-{name}")
        case Player():
            return player.player_html(part.runs, part.title, opened=part.opened)
        case _:
            return f"<p>{embed.text(part)}</p>\n"


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
