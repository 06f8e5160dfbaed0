"""All studies in order, each kept as soon as it is done; what is there already is not measured again.

The report says about the paper's main claims what the tests of the study `main` allow to say."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from archer.errors import ArcherError
from archer.files import read_json, replace_file, replace_json
from archer.pages.page import Presented, page, write_files
from archer.runs.comparison import SURE, chance
from archer.runs.workspace import Workspace
from archer_studies.study import Row, Study, result_of


def reproduce(
    workspace: Workspace,
    studies: Sequence[Study],
    say: Callable[[str], None],
    command: str = "",
) -> dict[str, str]:
    """Run every study and write the report, which tells `command`; who failed, and why."""
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


def write_result(folder: Path, study: Study, result: Mapping[str, Any]) -> Presented:
    """`NAME.json` and everything that is made of it."""
    folder.mkdir(parents=True, exist_ok=True)
    replace_json(result_path(folder, study.name), result)
    return write_presented(folder, study, result)


def write_presented(folder: Path, study: Study, result: Mapping[str, Any]) -> Presented:
    """Tables and figures of a result, as the present version makes them."""
    presented = study.present(result)
    write_files(folder, study.name, presented)
    return presented


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
        write_presented(folder, study, results[study.name]).section(f"{study.title} ({study.name})")
        for study in studies
        if study.name in results
    ]
    report = folder / "report.html"
    title, lead = _heading(list(results.values()), command)
    text = page(title, sections, lead=lead, message=conclusions(results))
    replace_file(report, text.encode())
    return report


def _heading(results: Sequence[Mapping[str, Any]], command: str) -> tuple[str, str]:
    """Title and lead."""
    if not results:
        return "The paper's studies", "No study has a result yet."
    settings = results[0]["settings"]
    days = sorted({str(result["measured"]) for result in results if "measured" in result})
    when = "" if not days else f", measured {' to '.join(dict.fromkeys((days[0], days[-1])))}"
    source = f" Made by: {command}." if command else ""
    return (
        f"The paper's studies, measured with {settings['model']} on {settings['task']}",
        f"Model {settings['model']}, task {settings['task']}{when}.{source} The paper's values stand beside "
        "ours. They were measured with LLaDA-8B on larger benchmarks, so compare directions, not levels.",
    )


def conclusions(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A sentence or two per benchmark, from the study `main`; nothing where it was not run."""
    if "main" not in results:
        return []
    rows: Sequence[Row] = results["main"]["rows"]
    tasks = list(dict.fromkeys(row["task"] for row in rows if "saber_base_p" in row))
    return [" ".join(_about(task, _by_method(rows, task))) for task in tasks]


def _by_method(rows: Sequence[Row], task: str) -> dict[str, Row]:
    return {row["method"]: row for row in rows if row["task"] == task}


def _about(task: str, rows: Mapping[str, Row]) -> Iterator[str]:
    archer, saber = rows.get("archer"), rows.get("saber")
    if archer is None or saber is None:
        return
    scores = (
        f"{archer['base']:.1f} % of {archer['n']} problems against Saber's {saber['base']:.1f} %"
    )
    p = archer["saber_base_p"]
    ranked = "more" if archer["base"] > saber["base"] else "fewer"
    verdict = "no significant difference" if p >= SURE else f"significantly {ranked}"
    yield f"{task}: Archer solves {scores}: {verdict} ({chance(p)})."
    low, high = archer["speedup_interval"]
    yield (
        f"It is {archer['speedup']:.2f} times as fast as LLaDA-Confidence (95 %: {low:.2f} to {high:.2f}), "
        f"Saber {saber['speedup']:.2f} times."
    )
    rivals = [row for row in rows.values() if row is not archer and row["base"] >= archer["base"]]
    faster = [row["arm"] for row in rivals if _interval(row)[0] > high]
    alike = [row["arm"] for row in rivals if _interval(row)[0] <= high and _interval(row)[1] >= low]
    if faster:
        yield f"Faster, with a score at least as high: {', '.join(faster)}."
    if alike:
        yield f"About as fast, with a score at least as high: {', '.join(alike)}."


def _interval(row: Row) -> tuple[float, float]:
    """Of the speedup; the reference of all speedups has none, and is 1 in any case."""
    low, high = row.get("speedup_interval") or (row["speedup"], row["speedup"])
    return low, high
