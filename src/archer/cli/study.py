"""`archer study` and `archer reproduce`: the paper's tables and figures, measured here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from archer.cli.messages import complain
from archer.cli.options import ModelOptions
from archer.cli.output import write_json, write_line
from archer.errors import BadRequest

if TYPE_CHECKING:
    from archer.studies.lab import Lab

FAILED = 1
DEFAULT_MODEL = ModelOptions()


def study(
    name: str,
    *,
    out: Path = Path("studies"),
    model: ModelOptions = DEFAULT_MODEL,
    task: str = "pocket",
    problems: int | None = None,
    quick: bool = False,
    data: Path | None = None,
    json: bool = False,
    unsafe_no_sandbox: bool = False,
) -> int:
    """Measure one table or figure of the paper. An unknown name lists the studies.

    Parameters
    ----------
    name
        Which study.
    out
        Folder for results; runs that several studies need are made once in it.
    task
        Benchmark; with another one than pocket the studies of long prompts use it, too.
    problems
        Problems per arm; 120.
    quick
        A few problems only, to see that everything works.
    data
        Folder with the data files of the benchmark.
    json
        Print the result as one JSON object.
    unsafe_no_sandbox
        Run programs even if this machine cannot confine them.
    """
    from archer.studies.output import write_result
    from archer.studies.registry import find_study
    from archer.studies.study import result_of

    chosen = find_study(name)
    lab = _lab(out, model, task, problems, quick, data, unsafe_no_sandbox)
    result = result_of(chosen, lab)
    presented = write_result(out, chosen, result)
    if json:
        write_json(result)
        return 0
    for table in presented.tables:
        write_line(table.markdown())
    write_line(f"In {out}: {name}.json, tables as .md, .csv and .tex, figures as .svg and .png.")
    return 0


def reproduce(
    *,
    out: Path = Path("reproduction"),
    model: ModelOptions = DEFAULT_MODEL,
    task: str = "pocket",
    problems: int | None = None,
    quick: bool = False,
    data: Path | None = None,
    unsafe_no_sandbox: bool = False,
) -> int:
    """Run all studies in order and write a report. The same command again goes on where it was.

    Parameters
    ----------
    out
        Folder for results, runs and report.html.
    task
        Benchmark; with another one than pocket the studies of long prompts use it, too.
    problems
        Problems per arm; 120.
    quick
        A few problems only, to see that everything works.
    data
        Folder with the data files of the benchmark.
    unsafe_no_sandbox
        Run programs even if this machine cannot confine them.
    """
    from archer.studies.registry import STUDIES
    from archer.studies.reproduction import reproduce as reproduced

    lab = _lab(out, model, task, problems, quick, data, unsafe_no_sandbox)
    failed = reproduced(lab, list(STUDIES.values()), complain)
    write_line(f"The report is {out / 'report.html'}.")
    if failed:
        complain(f"These studies failed: {', '.join(failed)}. The same command tries them again.")
    return FAILED if failed else 0


def _lab(
    out: Path,
    model: ModelOptions,
    task: str,
    problems: int | None,
    quick: bool,
    data: Path | None,
    unsafe_no_sandbox: bool,
) -> Lab:
    from dataclasses import replace

    from archer.studies.lab import FULL, QUICK, Lab
    from archer.tasks import open_task
    from archer.view.run_progress import RunProgress

    open_task(task)
    if problems is not None and problems < 1:
        raise BadRequest(f"--problems takes a number above 0, not {problems}.")
    scale = QUICK if quick else FULL
    if problems is not None:
        scale = replace(scale, problems=problems)
    own = task == "pocket"
    return Lab(
        model=model.load(),
        out=out,
        scale=scale,
        listener=RunProgress("arm", Console(stderr=True, highlight=False), complain),
        task=task,
        long_task="pocket-long" if own else task,
        dev_task="pocket-dev" if own else None,
        data=data,
        unsafe_no_sandbox=unsafe_no_sandbox,
    )
