"""`archer tune`: the method with the best trade-off of score and cost, on one's own model and task."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.console import Console

from archer.cli.messages import complain
from archer.cli.numbers import Amount, MaybePositive
from archer.cli.options import DEFAULT_MODEL, DataFolder, ModelOptions, Unconfined
from archer.cli.output import Json, emit, write_line, write_table, write_text
from archer.cli.workers import WorkerOptions

if TYPE_CHECKING:
    from archer.tune.candidates import Candidate

NO_METHOD = 1
PRESET = "preset.json"
DEFAULT_WORKERS = WorkerOptions()


def tune(
    task: str,
    *,
    model: ModelOptions = DEFAULT_MODEL,
    workers: WorkerOptions = DEFAULT_WORKERS,
    budget: Amount = 20.0,
    at_least: float | None = None,
    at_most: float | None = None,
    out: Path | None = None,
    candidate: Annotated[tuple[str, ...], Parameter(name="--candidate")] = (),
    problems: MaybePositive = None,
    shard: str | None = None,
    data: DataFolder = None,
    json: Json = False,
    unsafe_no_sandbox: Unconfined = False,
) -> int:
    """Find the best trade-off of score and cost on dev problems. The same command resumes a search.

    Args:
        task: Task to tune for, such as pocket; problems come from its dev split.
        budget: Minutes that the search may take.
        at_least: Choose the cheapest method with at least this score, in percent.
        at_most: Choose the best method with at most this cost; 1 is what Saber without a cache costs.
        out: Folder of the search [default: tune/TASK].
        candidate: METHOD,NAME=VALUE,... to try instead of the usual ones; may be repeated.
        problems: Use at most this many dev problems.
        shard: Such as 1/4, for a task without a dev split: search on this share, report on the others.
    """
    from archer.runs.selection import parse_shard
    from archer.runs.workspace import FULL, Workspace
    from archer.tasks import Data, open_task
    from archer.terminal.meters import TuneProgress
    from archer.tune.candidates import given, usual
    from archer.tune.choice import Goal
    from archer.tune.result import preset_of, result_of
    from archer.tune.search import Search, dev_task, drawn_order

    goal = Goal(at_least, at_most)
    share = parse_shard(shard)
    dev = dev_task(task, open_task(task, Data(data)), share)
    folder = out or Path("tune") / task
    console = Console(stderr=True, highlight=False)
    with workers.opened(model) as computing, TuneProgress(console, complain) as progress:
        workspace = Workspace(
            computing.model,
            folder,
            FULL,
            progress,
            task=dev,
            long_task=None,
            dev_task=dev,
            data=data,
            unsafe_no_sandbox=unsafe_no_sandbox,
            executor=computing.executor,
            device=computing.device,
        )
        opened = workspace.open()
        suitable = (computing.model, opened.length)
        chosen = given(candidate, *suitable) if candidate else usual(*suitable)
        keys = drawn_order(opened, share, problems)
        search = Search(workspace, dev, keys, {each.label: each for each in chosen}, budget)
        history = search.run(progress)
    result = result_of(search, history, goal)
    named = result["choice"]["method"]
    result["choice"]["line"] = None if named is None else line_of(search.candidates[named])
    preset = preset_of(search, result)
    _keep(folder, result, None if preset is None else preset.to_dict())
    emit(result, lambda: _show(folder, result, _report_on(task, dev, share)), json=json)
    return NO_METHOD if preset is None else 0


def line_of(candidate: Candidate) -> str:
    """A method as options of any command."""
    settings = (shlex.quote(f"{name}={value}") for name, value in candidate.settings.items())
    named = f"--method {shlex.quote(candidate.method)}"
    return " ".join([named, *(f"--set {each}" for each in settings)])


def _as_preset(path: Path, label: str) -> str:
    """The preset as options; code in a file has to be named by its user again."""
    from archer.methods.own_files import own_parts
    from archer.methods.spelling import in_full

    method = label.partition(",")[0]
    own = f" --method {shlex.quote(in_full(method))}" if any(own_parts(method)) else ""
    return f"--preset {path}{own}"


def _report_on(task: str, dev: str, share: tuple[int, int] | None) -> str | None:
    """The command that scores the choice on problems that it was not chosen on."""
    if share is not None:
        first, n = share
        return f"archer eval {task} --shard {first % n + 1}/{n}" if n > 1 else None
    return f"archer eval {task}" if task != dev else None


def _keep(folder: Path, result: Mapping[str, Any], preset: Mapping[str, Any] | None) -> None:
    from archer.files import replace_json
    from archer.pages.page import write_files
    from archer.tune.result import NAME, present

    replace_json(folder / f"{NAME}.json", result)
    write_files(folder, NAME, present(result))
    if preset is None:
        (folder / PRESET).unlink(missing_ok=True)
    else:
        replace_json(folder / PRESET, preset)


def _show(folder: Path, result: Mapping[str, Any], report_on: str | None) -> None:
    from archer.pages.figures import REMEDY, can_draw
    from archer.tune.result import present

    table, *_ = present(result).tables
    write_table(table)
    choice = result["choice"]
    if choice["method"] is None:
        complain(choice["reason"])
    else:
        write_line(f"Chosen: {choice['method']}, {choice['reason']}. As options for any command:")
        write_text(f"  {choice['line']}")
        options = _as_preset(folder / PRESET, choice["method"])
        write_line(f"Or as a preset, for generate, eval and serve: {options}")
        if report_on is not None:
            write_line("To score it on problems that it was not chosen on:")
            write_text(f"  {report_on} {options}")
    for warning in choice["warnings"]:
        complain(warning)
    drawn = ", a figure as .svg and .png" if can_draw() else ""
    write_line(f"In {folder}: tune.json, tables as .md, .csv and .tex{drawn}.")
    if not can_draw():
        complain(REMEDY)
