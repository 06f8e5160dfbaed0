"""A result as files: JSON, the tables in four formats, the figures in two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from archer.files import replace_file, replace_json
from archer.pages.page import Part, Player, Section
from archer_studies.study import Presented, Study


def write_result(folder: Path, study: Study, result: Mapping[str, Any]) -> Presented:
    """`NAME.json` and everything that is made of it."""
    folder.mkdir(parents=True, exist_ok=True)
    replace_json(folder / f"{study.name}.json", result)
    return write_presented(folder, study, result)


def write_presented(folder: Path, study: Study, result: Mapping[str, Any]) -> Presented:
    """Tables and figures of a result, as the present version makes them."""
    presented = study.present(result)
    write_files(folder, study.name, presented)
    return presented


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
        if not figure.svg:
            continue
        yield f"{name}-{what}.svg", figure.svg.encode()
        yield f"{name}-{what}.png", figure.png


def section_of(study: Study, presented: Presented) -> Section:
    """The study's part of the report."""
    parts: list[Part] = [*presented.notes, *presented.tables, *presented.figures.values()]
    parts += [Player(title, runs) for title, runs in presented.players.items()]
    return Section(f"{study.title} ({study.name})", parts, folded=True)
