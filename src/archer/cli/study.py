"""`archer study` and `archer reproduce`: the paper's tables and figures, measured here."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import Parameter
from rich.console import Console

from archer.cli.messages import complain
from archer.cli.numbers import MaybePositive, Processes
from archer.cli.options import DEFAULT_MODEL, DataFolder, ModelOptions, Unconfined, as_typed
from archer.cli.output import Json, emit, write_grid, write_line, write_table
from archer.cli.workers import check_whole, processes
from archer.errors import BadRequest

if TYPE_CHECKING:
    from archer.model import Model
    from archer.runs.executors.executor import Executor
    from archer.runs.workspace import Workspace
    from archer.terminal.meters import RunProgress

FAILED = 1
MAIN = "main"


@Parameter(name="*", group="Study")
@dataclass(frozen=True)
class StudyOptions:
    """What is measured, and how much of it."""

    task: str = "pocket"
    """Benchmark; any other than pocket is also used by the studies of long prompts."""
    problems: MaybePositive = None
    """Problems per arm [default: 400, 150 with long prompts, 120 where single updates are examined]."""
    quick: bool = False
    """A few problems only, to see that everything works."""
    data: DataFolder = None
    unsafe_no_sandbox: Unconfined = False

    def workspace(
        self, out: Path, model: ModelOptions, listener: RunProgress, methods: tuple[str, ...]
    ) -> Workspace:
        """Everything the studies share; whatever can be refused is refused first."""
        from archer.runs.workspace import FULL, QUICK, Workspace
        from archer.tasks import open_task

        open_task(self.task)
        scale = QUICK if self.quick else FULL
        if self.problems is not None:
            scale = scale.limited(self.problems)
        own = self.task == "pocket"
        return Workspace(
            model=model.load(),
            out=out,
            scale=scale,
            listener=listener,
            task=self.task,
            long_task="pocket-long" if own else self.task,
            dev_task="pocket-dev" if own else None,
            data=self.data,
            methods=methods,
            unsafe_no_sandbox=self.unsafe_no_sandbox,
        )


DEFAULT_STUDY = StudyOptions()


@contextmanager
def _opened(
    out: Path,
    model: ModelOptions,
    options: StudyOptions,
    workers: int,
    methods: tuple[str, ...] = (),
) -> Iterator[Workspace]:
    """The workspace, whose arms are completed by this process or by several."""
    if workers > 1:
        check_whole(model)
    with ExitStack() as stack:
        workspace = options.workspace(out, model, stack.enter_context(_listener()), methods)
        if workers > 1:

            def hire(model: Model) -> Executor:
                return stack.enter_context(processes(model.source, model, workers))

            workspace = replace(workspace, executor=hire(workspace.model), hire=hire)
        yield workspace


def study(
    name: str | None = None,
    *,
    out: Path = Path("studies"),
    model: ModelOptions = DEFAULT_MODEL,
    options: StudyOptions = DEFAULT_STUDY,
    workers: Processes = 1,
    method: tuple[str, ...] = (),
    json: Json = False,
) -> int:
    """Measure one table or figure, from the paper or beyond it.

    Args:
        name: Which study; without a name, the studies are listed.
        out: Folder for results; runs that several studies need are made once in it.
        workers: Processes that complete the problems of an arm side by side, each with a model of its own.
        method: For main: a method to measure as well, also from a file, ./mine.py:MyDecoder; may be repeated.
    """
    from archer.pages.figures import REMEDY, can_draw
    from archer_studies.registry import find_study
    from archer_studies.reproduction import write_result
    from archer_studies.study import result_of

    if name is None:
        return _list(json=json)
    chosen = find_study(name)
    _check_methods(name, method)
    with _opened(out, model, options, workers, method) as workspace:
        result = result_of(chosen, workspace)
    presented = write_result(out, chosen, result)

    def show() -> None:
        for table in presented.tables:
            write_table(table)
        drawn = ", figures as .svg and .png" if can_draw() else ""
        write_line(f"In {out}: {name}.json, tables as .md, .csv and .tex{drawn}.")
        if not can_draw():
            complain(REMEDY)

    return emit(result, show, json=json)


def _check_methods(study: str, methods: tuple[str, ...]) -> None:
    """Refuse methods that cannot be built, or that no study would measure."""
    from archer.methods.build import build
    from archer.methods.own_files import bring

    if methods and study != MAIN:
        raise BadRequest(f"Only the study {MAIN} takes further methods; leave out --method.")
    for method in methods:
        bring(method)
        build(method, {})


def _list(*, json: bool) -> int:
    from archer_studies.registry import BEYOND, STUDIES

    about = {name: study.about for name, study in (STUDIES | BEYOND).items()}

    def show() -> None:
        write_grid(("study", "what it measures"), list(about.items()))
        write_line("")
        write_line("archer study NAME measures one of them (--quick: a little of it).")
        write_line(
            f"archer reproduce measures all but the last {len(BEYOND)}, which go beyond the paper."
        )

    return emit(about, show, json=json)


def _listener() -> RunProgress:
    from archer.terminal.meters import RunProgress

    return RunProgress("arm", Console(stderr=True, highlight=False), complain)


def reproduce(
    *,
    out: Path = Path("reproduction"),
    model: ModelOptions = DEFAULT_MODEL,
    options: StudyOptions = DEFAULT_STUDY,
    workers: Processes = 1,
) -> int:
    """Run all studies of the paper in order and write a report. The same command resumes it.

    Args:
        out: Folder for results, runs and report.html.
        workers: Processes that complete the problems of an arm side by side, each with a model of its own.
            Single updates are examined, and times taken, by one process.
    """
    from archer_studies.registry import STUDIES
    from archer_studies.reproduction import reproduce as reproduced

    command = shlex.join(
        ["archer", "reproduce", *as_typed(model), *as_typed(options), "--out", str(out)]
    )
    with _opened(out, model, options, workers) as workspace:
        failed = reproduced(workspace, list(STUDIES.values()), complain, command)
    write_line(f"The report is {out / 'report.html'}.")
    if failed:
        complain(f"These studies failed: {', '.join(failed)}. The same command tries them again.")
    return FAILED if failed else 0
