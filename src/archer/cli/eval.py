"""`archer eval`: a model, a method and benchmarks in, a run folder with scores out."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from archer.cli.messages import complain
from archer.cli.numbers import MaybeWhole, Whole
from archer.cli.options import DEFAULT_MODEL, DataFolder, MethodOptions, ModelOptions, Unconfined
from archer.cli.output import Json, emit, write_grid, write_line
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
    gap: list[str] | None = None,
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
        gap: Length of gaps: oracle, fixed (the method's), search, delete or a number; several give a run each
            [default: oracle, fixed and search].
    """
    from archer.runs.evaluation import run_folders
    from archer.runs.manifest import check_numbers
    from archer.runs.selection import Selection, parse_shard, parse_subset

    check_numbers(batch, traces)
    chosen = method.chosen()
    chosen.check()
    selection = Selection(parse_subset(subset), limit, parse_shard(shard))
    opened = _open(tasks, data, selection)
    planned = _planned(opened, gap)
    request = {
        "seed": seed,
        "batch": batch,
        "chat": not raw,
        "selection": selection,
        "traces": traces,
    }
    with workers.opened(model) as computing:
        chosen = replace(chosen, method=chosen.named(computing.model.folder.recommended))
        place = out or _default_folder(list(opened), chosen.method)
        folders = run_folders([run.name for run in planned], place)
        done = _run(planned, folders, computing, chosen, request, unsafe_no_sandbox)
    summaries = {name: outcome.summary.plain() for name, outcome in done.items()}
    if len(summaries) > 1:
        _write_all(place, summaries)
    result = next(iter(summaries.values())) if len(summaries) == 1 else {"tasks": summaries}
    emit(result, partial(_show, planned, done, folders), json=json)
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


class PlannedRun(NamedTuple):
    """A task and, where it has gaps, the rule for their length."""

    name: str
    task: Task
    gap: str | None = None


def _planned(opened: dict[str, Task], gap: list[str] | None) -> list[PlannedRun]:
    """A run for each task, and for each rule where a task has gaps."""
    from archer.request.fill import SEARCH
    from archer.runs.manifest import FIXED, ORACLE, check_gap

    rules = list(dict.fromkeys(map(check_gap, gap or (ORACLE, FIXED, SEARCH))))
    planned = []
    for name, task in opened.items():
        if task.samples()[0].infill is None:
            planned.append(PlannedRun(name, task))
        else:
            planned += [PlannedRun(f"{name}-{rule}", task, rule) for rule in rules]
    if gap and not any(run.gap for run in planned):
        raise BadRequest("None of the tasks has gaps; leave out --gap.")
    return planned


def _run(
    planned: list[PlannedRun],
    folders: dict[str, Path],
    computing: Computing,
    chosen: Choice,
    request: dict[str, Any],
    unsafe_no_sandbox: bool,
) -> dict[str, Evaluation]:
    from archer.methods.spelling import over
    from archer.runs.evaluation import evaluate as run
    from archer.runs.manifest import RunRequest
    from archer.terminal.meters import RunProgress

    console = Console(stderr=True, highlight=False)
    done = {}
    for name, task, gap in planned:
        choice = chosen
        if chosen.preset is None:
            choice = replace(chosen, settings=over(chosen.settings, {"length": task.length}))
        run_request = RunRequest(
            computing.model,
            task,
            choice,
            device=computing.device,
            gap=gap,
            **request,
        )
        with RunProgress(name, console, complain) as progress:
            done[name] = run(
                run_request,
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


def _show(planned: list[PlannedRun], done: dict[str, Evaluation], folders: dict[str, Path]) -> None:
    from archer.runs.summary import by_gap, lines

    for run in planned:
        if run.gap is None:
            for line in lines(done[run.name].summary):
                write_line(line)
            write_line(f"  in {folders[run.name]}")
    for task in dict.fromkeys(run.task.name for run in planned if run.gap is not None):
        runs = [run for run in planned if run.task.name == task]
        summaries = {str(run.gap): done[run.name].summary for run in runs}
        first = next(iter(summaries.values()))
        write_line(f"{task} by {first.method}: {first.n} gaps, intervals by function")
        head, *rows = by_gap(summaries)
        write_grid(head, rows)
        for run in runs:
            write_line(f"  {run.gap} in {folders[run.name]}")


def _faults(done: dict[str, Evaluation]) -> int:
    for name, outcome in done.items():
        if outcome.unjudged:
            some = ", ".join(outcome.unjudged[:NAMED])
            complain(
                f"{name}: {len(outcome.unjudged)} completions could not be judged ({some}). The same "
                "command tries them again."
            )
    return UNJUDGED if any(not each.summary.complete for each in done.values()) else 0
