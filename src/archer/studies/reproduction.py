"""All studies in order, each kept as soon as it is done; what is there already is not measured again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from archer.errors import ArcherError
from archer.report.page import page
from archer.runs.files import read_json, replace_file
from archer.studies.conclusions import conclusions
from archer.studies.output import section_of, write_presented, write_result
from archer.studies.study import Study, result_of
from archer.studies.workspace import Workspace

TITLE = "Archer, reproduced"


def reproduce(
    workspace: Workspace, studies: Sequence[Study], say: Callable[[str], None]
) -> dict[str, str]:
    """Run every study; the names of those that failed, with the reason. Then write the report."""
    failed: dict[str, str] = {}
    for study in studies:
        if result_path(workspace.out, study.name).exists():
            say(f"{study.name}: done already.")
            continue
        error = keep(workspace, study, say)
        if error is not None:
            failed[study.name] = error
    write_report(workspace.out, studies)
    return failed


def keep(workspace: Workspace, study: Study, say: Callable[[str], None]) -> str | None:
    """Run one study and write down what it found; the reason if it failed."""
    try:
        result = result_of(study, workspace)
        write_result(workspace.out, study, result)
    except ArcherError as error:
        say(f"{study.name}: failed: {error}")
        return str(error)
    say(f"{study.name}: done in {result['seconds']:.0f} s.")
    return None


def result_path(folder: Path, study: str) -> Path:
    """Where a study's result is kept."""
    return folder / f"{study}.json"


def write_report(folder: Path, studies: Sequence[Study]) -> Path:
    """`report.html` of the results that are there; their tables and figures are made once more."""
    sections = []
    for study in studies:
        path = result_path(folder, study.name)
        if path.exists():
            sections.append(section_of(study, write_presented(folder, study, read_json(path))))
    report = folder / "report.html"
    results = {
        study.name: read_json(result_path(folder, study.name))
        for study in studies
        if result_path(folder, study.name).exists()
    }
    made = page(TITLE, sections, lead=_lead(folder, studies), message=conclusions(results))
    replace_file(report, made.encode())
    return report


def _lead(folder: Path, studies: Sequence[Study]) -> str:
    settings: list[Mapping[str, Any]] = [
        read_json(result_path(folder, study.name))["settings"]
        for study in studies
        if result_path(folder, study.name).exists()
    ]
    if not settings:
        return "No study has a result yet."
    return (
        f"Model {settings[0]['model']}, task {settings[0]['task']}. The paper's values stand beside "
        "ours; they are of LLaDA-8B and larger benchmarks, so directions can be compared, not levels."
    )
