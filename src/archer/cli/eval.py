"""`archer eval`: a model, a method and benchmarks in, a run folder with scores out."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from archer.cli.messages import complain
from archer.cli.numbers import MaybeWhole, Whole
from archer.cli.options import DEFAULT_MODEL, DataFolder, MethodOptions, ModelOptions, Unconfined
from archer.cli.output import Json, emit, write_line
from archer.cli.workers import WorkerOptions
from archer.errors import BadRequest

if TYPE_CHECKING:
    from archer.cli.workers import Computing
    from archer.methods.build import Choice
    from archer.runs.evaluation import Evaluation
    from archer.runs.selection import Selection
    from archer.tasks.base import Task

UNJUDGED = 1
DEFAULT_METHOD = MethodOptions()
DEFAULT_WORKERS = WorkerOptions()
NAMED = 5


def evaluate(
    *tasks: str,
    out: Path | None = None,
    model: ModelOptions = DEFAULT_MODEL,
    method: MethodOptions = DEFAULT_METHOD,
    workers: WorkerOptions = DEFAULT_WORKERS,
    limit: MaybeWhole = None,
    subset: str | None = None,
    shard: str | None = None,
    batch: Whole = 1,
    seed: Whole = 0,
    raw: bool = False,
    traces: Whole = 0,
    data: DataFolder = None,
    json: Json = False,
    unsafe_no_sandbox: Unconfined = False,
) -> int:
    """Score a model on benchmarks. The same command resumes an interrupted run.

    Args:
        tasks: Names of tasks; `archer tasks` lists them.
        out: Run folder; with several tasks, one folder for each inside it [default: runs/TASK-METHOD].
        limit: Use only the first N problems.
        subset: Ids of problems, comma-separated.
        shard: Such as 2/4: the second of four shares of the problems.
        batch: Problems decoded together; use 1 for scores that you report.
        seed: Seed of the noise at a temperature above 0.
        raw: Send prompts without the chat template.
        traces: Record every update of the first N problems, for archer view and archer report.
    """
    from archer.runs.evaluation import run_folders
    from archer.runs.manifest import check_numbers
    from archer.runs.selection import Selection, parse_shard, parse_subset

    check_numbers(batch, traces)
    chosen = method.chosen()
    chosen.check()
    selection = Selection(parse_subset(subset), limit, parse_shard(shard))
    opened = _open(tasks, data, selection)
    request = {
        "seed": seed,
        "batch": batch,
        "chat": not raw,
        "selection": selection,
        "traces": traces,
    }
    with workers.opened(model) as computing:
        chosen = replace(chosen, method=chosen.named(computing.model.folder.recommended))
        folders = run_folders(list(opened), out or _default_folder(list(opened), chosen.method))
        done = _run(opened, folders, computing, chosen, request, unsafe_no_sandbox)
    summaries = {name: outcome.summary.plain() for name, outcome in done.items()}
    if len(summaries) > 1:
        _write_all(out or _default_folder(list(opened), chosen.method), summaries)
    result = next(iter(summaries.values())) if len(summaries) == 1 else {"tasks": summaries}
    emit(result, partial(_show, done, folders), json=json)
    return _faults(done)


def _open(names: tuple[str, ...], data: Path | None, selection: Selection) -> dict[str, Task]:
    """Every task with its data read, before a model is loaded."""
    from archer.runs.evaluation import read_all_data
    from archer.tasks import ALL_TASKS, Data, open_task

    if not names:
        raise BadRequest(f"Name at least one task. The tasks are {', '.join(ALL_TASKS)}.")
    if len(set(names)) < len(names):
        raise BadRequest("A task is named twice.")
    opened = {name: open_task(name, Data(data)) for name in names}
    for task in opened.values():
        read_all_data(task, selection.of(task.samples())[0])
    return opened


def _run(
    opened: dict[str, Task],
    folders: dict[str, Path],
    computing: Computing,
    chosen: Choice,
    request: dict[str, Any],
    unsafe_no_sandbox: bool,
) -> dict[str, Evaluation]:
    from archer.methods.build import over
    from archer.runs.evaluation import evaluate as run
    from archer.runs.manifest import RunRequest
    from archer.terminal.meters import RunProgress

    console = Console(stderr=True, highlight=False)
    done = {}
    for name, task in opened.items():
        settings = chosen.settings
        if chosen.preset is None:
            settings = over(settings, {"length": task.length})
        asked = RunRequest(
            computing.model,
            task,
            chosen.method,
            settings,
            chosen.preset,
            device=computing.device,
            **request,
        )
        with RunProgress(name, console, complain) as progress:
            done[name] = run(
                asked,
                folders[name],
                progress,
                executor=computing.executor,
                unsafe_no_sandbox=unsafe_no_sandbox,
            )
    return done


def _default_folder(names: list[str], method: str) -> Path:
    plain = re.sub(r"[^\w.=-]+", "-", method)
    return Path("runs") / (f"{names[0]}-{plain}" if len(names) == 1 else plain)


def _write_all(out: Path, summaries: dict[str, dict[str, Any]]) -> None:
    from archer.files import replace_json

    complete = all(each["complete"] for each in summaries.values())
    replace_json(out / "summary.json", {"complete": complete, "tasks": summaries})


def _show(done: dict[str, Evaluation], folders: dict[str, Path]) -> None:
    from archer.runs.summary import lines

    for name, outcome in done.items():
        for line in lines(outcome.summary):
            write_line(line)
        write_line(f"  in {folders[name]}")


def _faults(done: dict[str, Evaluation]) -> int:
    for name, outcome in done.items():
        if outcome.unjudged:
            some = ", ".join(outcome.unjudged[:NAMED])
            complain(
                f"{name}: {len(outcome.unjudged)} completions could not be judged ({some}). The same "
                "command tries them again."
            )
    return UNJUDGED if any(not each.summary.complete for each in done.values()) else 0
