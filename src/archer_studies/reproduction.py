"""All studies in order, each kept as soon as it is done; what is there already is not measured again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from archer.errors import ArcherError
from archer.files import read_json, replace_file
from archer.pages.page import page
from archer.runs.workspace import Workspace
from archer_studies.conclusions import conclusions
from archer_studies.output import section_of, write_presented, write_result
from archer_studies.study import Study, result_of


def reproduce(
    workspace: Workspace,
    studies: Sequence[Study],
    say: Callable[[str], None],
    command: str = "",
) -> dict[str, str]:
    """Run every study; the names of those that failed, with the reason. Then write the report.

    `command` is the one that asked for it, as the report tells it.
    """
    failed: dict[str, str] = {}
    for study in studies:
        if result_path(workspace.out, study.name).exists():
            say(f"{study.name}: done already.")
            continue
        error = keep(workspace, study, say)
        if error is not None:
            failed[study.name] = error
    write_report(workspace.out, studies, command)
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


def write_report(folder: Path, studies: Sequence[Study], command: str = "") -> Path:
    """`report.html` of the results that are there; their tables and figures are made once more."""
    results = {
        study.name: read_json(result_path(folder, study.name))
        for study in studies
        if result_path(folder, study.name).exists()
    }
    sections = [
        section_of(study, write_presented(folder, study, results[study.name]))
        for study in studies
        if study.name in results
    ]
    report = folder / "report.html"
    lead = _lead(list(results.values()), command)
    made = page(_title(list(results.values())), sections, lead=lead, message=conclusions(results))
    replace_file(report, made.encode())
    return report


def _title(results: Sequence[Mapping[str, Any]]) -> str:
    if not results:
        return "The paper's studies"
    settings = results[0]["settings"]
    return f"The paper's studies, measured with {settings['model']} on {settings['task']}"


def _lead(results: Sequence[Mapping[str, Any]], command: str) -> str:
    if not results:
        return "No study has a result yet."
    settings = results[0]["settings"]
    days = sorted({str(result["measured"]) for result in results if "measured" in result})
    when = "" if not days else f", measured {' to '.join(dict.fromkeys((days[0], days[-1])))}"
    made = f" Made by: {command}." if command else ""
    return (
        f"Model {settings['model']}, task {settings['task']}{when}.{made} The paper's values stand beside "
        "ours. They were measured with LLaDA-8B on larger benchmarks, so compare directions, not levels."
    )
