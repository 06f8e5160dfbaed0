"""All studies in order, each kept as soon as it is done; what is there already is not measured again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from archer.errors import ArcherError
from archer.report.page import page
from archer.runs.files import read_json, replace_file
from archer.studies.lab import Lab
from archer.studies.output import section_of, write_result
from archer.studies.study import Study, result_of

TITLE = "Archer, reproduced"


def reproduce(lab: Lab, studies: Sequence[Study], say: Callable[[str], None]) -> dict[str, str]:
    """Run every study; the names of those that failed, with the reason. Then write the report."""
    failed: dict[str, str] = {}
    for study in studies:
        path = lab.out / f"{study.name}.json"
        if path.exists():
            say(f"{study.name}: done already.")
            continue
        try:
            result = result_of(study, lab)
            write_result(lab.out, study, result)
        except ArcherError as error:
            failed[study.name] = str(error)
            say(f"{study.name}: failed: {error}")
            continue
        say(f"{study.name}: done in {result['seconds']:.0f} s.")
    write_report(lab.out, studies)
    return failed


def write_report(folder: Path, studies: Sequence[Study]) -> Path:
    """`report.html` of the results that are there."""
    sections = []
    for study in studies:
        path = folder / f"{study.name}.json"
        if path.exists():
            sections.append(section_of(study, study.present(read_json(path))))
    report = folder / "report.html"
    replace_file(report, page(TITLE, sections, lead=_lead(folder, studies)).encode())
    return report


def _lead(folder: Path, studies: Sequence[Study]) -> str:
    settings: list[Mapping[str, Any]] = [
        read_json(folder / f"{study.name}.json")["settings"]
        for study in studies
        if (folder / f"{study.name}.json").exists()
    ]
    if not settings:
        return "No study has a result yet."
    return (
        f"Model {settings[0]['model']}, task {settings[0]['task']}. The paper's values stand beside "
        "ours; they are of LLaDA-8B and larger benchmarks, so directions can be compared, not levels."
    )
