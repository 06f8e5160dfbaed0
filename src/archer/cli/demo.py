"""`archer demo`: the bundled model solves a problem before your eyes, then three methods are compared."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from archer.cli.messages import complain
from archer.cli.output import write_line
from archer.errors import BadRequest

if TYPE_CHECKING:
    from archer.model import Model
    from archer.tasks.base import CodeTask

EXAMPLE = """\
Write a function to count the numbers in nums that are greater than 5.
assert solve([1, 7, 9]) == 2
assert solve([2]) == 0
def solve(nums):"""
"""The problem that is solved live."""
METHODS = ("llada-confidence", "saber", "archer")
PROBLEMS = 20
PAUSE = 0.12
"""Seconds per drawn update: the model is faster than the eye."""


def demo(*, problems: int = PROBLEMS) -> int:
    """Watch the bundled model solve a problem, then compare three methods. Takes less than a minute.

    Parameters
    ----------
    problems
        How many problems the comparison takes.
    """
    from archer.model import load
    from archer.tasks import CodeTask, open_task

    if problems < 1:
        raise BadRequest(f"--problems takes a number above 0, not {problems}.")
    model = load("pocket", device="cpu", dtype="float32")
    task = open_task("pocket-dev")
    assert isinstance(task, CodeTask)
    _solve(model)
    write_line("")
    write_line(f"{problems} problems, each by three methods:")
    write_line("")
    _show({name: _summary(model, task, name, problems) for name in METHODS})
    write_line("")
    write_line("A full pass computes prompt and response, a cached pass the response alone.")
    write_line("Try it yourself: archer generate, archer eval pocket, archer methods.")
    return 0


def _solve(model: Model) -> None:
    """One problem, in a terminal with the view of how the answer forms."""
    from archer.cli.running import run

    for line in EXAMPLE.splitlines():
        write_line(f"  {line}")
    write_line("")
    request = model.request(EXAMPLE, "archer")
    live = Console() if sys.stdout.isatty() else None
    (done,) = run(model, request, console=live, pause=PAUSE if live else 0.0)
    header = EXAMPLE.splitlines()[-1]
    for line in f"{header}{done.text}".splitlines():
        write_line(f"  {line}")
    write_line("")
    write_line(
        f"Written in {done.updates} updates: {done.full_passes} full passes, {done.cached_passes} "
        f"cached ones; {done.revised_positions} positions were taken back and filled again."
    )


def _summary(model: Model, task: CodeTask, method: str, problems: int) -> Mapping[str, Any]:
    from archer.runs.evaluation import evaluate
    from archer.runs.manifest import RunRequest
    from archer.runs.selection import Selection
    from archer.view.run_progress import RunProgress

    selection = Selection(limit=problems)
    request = RunRequest(model, task, method, {"length": task.length}, selection=selection)
    console = Console(stderr=True, highlight=False)
    with TemporaryDirectory() as folder, RunProgress(method, console, complain) as progress:
        return evaluate(request, Path(folder) / "run", progress).summary


def _show(found: Mapping[str, Mapping[str, Any]]) -> None:
    table = Table(
        "method", "base", "extended", "updates", "full", "cached", "seconds", "speedup",
        box=None, pad_edge=False,
    )  # fmt: skip
    slowest = next(iter(found.values()))["per_problem"]["seconds"]
    for name, summary in found.items():
        each = summary["per_problem"]
        table.add_row(
            name,
            f"{summary['pass@1']:.0%}",
            f"{summary['pass@1_extended']:.0%}",
            *(f"{each[key]:.1f}" for key in ("updates", "full_passes", "cached_passes")),
            f"{each['seconds']:.3f}",
            f"{slowest / each['seconds']:.2f} x",
        )
    Console(highlight=False, width=100).print(table)
