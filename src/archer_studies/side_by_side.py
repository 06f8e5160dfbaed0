"""Several processes that reproduce side by side: first the arms that studies share, then the studies.

Each process has a model and one judge of its own. Their timings are taken while the others work, too, so they
compare with each other and not with those of a machine that does one thing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from typing import Protocol

from archer.errors import ArcherError
from archer.runs.executors.dispatch import WorkersLost
from archer.runs.workspace import ArmRequest, Workspace
from archer_studies.registry import STUDIES
from archer_studies.reproduction import keep, result_path, write_report

Say = Callable[[str], None]


class Place(Hashable, Protocol):
    """Plain data from which every process makes its workspace."""

    def workspace(self) -> Workspace: ...


@dataclass(frozen=True)
class Report:
    """What a process has to say about an arm or a study."""

    line: str
    error: str | None = None


def reproduce_together(
    place: Place,
    workspace: Workspace,
    studies: Sequence[str],
    workers: int,
    say: Say,
    command: str = "",
) -> dict[str, str]:
    """Run every study that has no result yet; the names of those that failed, with the reason."""
    missing = [name for name in studies if not result_path(workspace.out, name).exists()]
    for name in studies:
        if name not in missing:
            say(f"{name}: done already.")
    arms = _arms(workspace, missing)
    failed: dict[str, str] = {}
    with _pool(workers) as pool:
        ahead = [pool.submit(_run_arm, place, wanted) for wanted in arms]
        for number, done in enumerate(as_completed(ahead), start=1):
            say(f"{number} of {len(ahead)} shared arms: {done.result().line}")
        running = {pool.submit(_run_study, place, name): name for name in missing}
        for ended in as_completed(running):
            report = ended.result()
            say(report.line)
            if report.error is not None:
                failed[running[ended]] = report.error
    write_report(workspace.out, [STUDIES[name] for name in studies], command)
    return failed


def _arms(workspace: Workspace, studies: Sequence[str]) -> list[ArmRequest]:
    """Arms that some studies want, each once."""
    found: list[ArmRequest] = []
    for name in studies:
        found += [wanted for wanted in STUDIES[name].arms(workspace) if wanted not in found]
    return found


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes; what has not begun is given up when one fails or the user interrupts."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        try:
            yield pool
        except BrokenProcessPool as error:
            raise WorkersLost(
                f"One of the {workers} processes of the reproduction was killed, so all of them end. If "
                "memory is short, take fewer of them; the same command goes on from what is recorded."
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@cache
def _opened(place: Place) -> Workspace:
    """The one workspace of this process."""
    return place.workspace()


def _run_arm(place: Place, wanted: ArmRequest) -> Report:
    """An arm that fails here fails again in the study that needs it, which then says so."""
    name = f"{wanted.method} on {wanted.task or _opened(place).task}"
    try:
        arm = _opened(place).run(wanted)
    except ArcherError as error:
        return Report(f"{name}: {error}", str(error))
    return Report(f"{name}, {len(arm.keys)} problems.")


def _run_study(place: Place, name: str) -> Report:
    lines: list[str] = []
    error = keep(_opened(place), STUDIES[name], lines.append)
    return Report(lines[-1], error)
