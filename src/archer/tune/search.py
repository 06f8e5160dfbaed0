"""The search: runs what the halving asks for, in a folder that can be continued.

    search.json        what is searched: task, problems, candidates; written once
    calibration.json   what the first problems took; written once, so that no later clock decides anything
    arms/              one run per candidate and round, each with its journal

Whatever is finished there is read, not run, and everything else follows from it: a search that was killed
goes on to the same choice.  One kill leaves a trace: before calibration.json is written, what a run takes
besides decoding is measured anew, so the rounds may get other sizes.  Another budget gives them other sizes,
too, in the same folder.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from archer.errors import BadRequest, BadRun, DiskFault
from archer.files import read_json, replace_json
from archer.methods.spelling import plain
from archer.runs.evaluation import RunListener
from archer.runs.folder import Lock
from archer.runs.manifest import differences, digest
from archer.runs.selection import Selection
from archer.runs.statistics import mean
from archer.runs.workspace import Arm, Workspace
from archer.tasks.base import Task
from archer.tune.candidates import REFERENCE, Candidate
from archer.tune.halving import (
    CALIBRATED,
    FINALISTS,
    Calibration,
    Seen,
    least_seconds,
    problems,
    rounds,
    spent,
    survivors,
)

SEARCH, CALIBRATION = "search.json", "calibration.json"
VERSION = 1
MOST_NAMED = 3
MINUTE = 60.0


class Progress(RunListener, Protocol):
    """Hears of every run, and of every round before its first."""

    def round(self, number: int, of: int, methods: int, problems: int) -> None: ...
    def skipped(self, problems: int) -> None: ...


@dataclass(frozen=True)
class Round:
    """One round as it was: who took part, and what each showed on the new problems."""

    shown: Mapping[str, Seen]
    seconds: Mapping[str, float]
    """Measured, of all its new problems together."""


@dataclass(frozen=True)
class SearchHistory:
    """All rounds; the first is the calibration."""

    candidates: Mapping[str, Candidate]
    rounds: Sequence[Round]
    keys: Sequence[str]
    """Problems in the order in which they were used."""

    def seen(self, label: str) -> Seen:
        """All that a candidate showed."""
        parts = [each.shown[label] for each in self.rounds if label in each.shown]
        return sum(parts, Seen())

    def seconds(self, label: str) -> float:
        """Measured seconds per problem, each at its own time of the search."""
        taken = [each.seconds[label] for each in self.rounds if label in each.seconds]
        return sum(taken) / len(self.seen(label).solved)

    def last(self, label: str) -> int:
        """The last round that it took part in."""
        return max(number for number, each in enumerate(self.rounds) if label in each.shown)

    @property
    def finalists(self) -> dict[str, Seen]:
        """Those of the last round with everything they showed."""
        return {label: self.seen(label) for label in self.rounds[-1].shown}


def dev_task(name: str, task: Task, shard: tuple[int, int] | None) -> str:
    """The name of the task to search on; refuses what results are reported on."""
    if task.dev is not None:
        return task.dev
    if task.sealed:
        raise BadRequest(
            f"{name} is kept for confirmations; nothing is chosen on it. Search on another task."
        )
    if shard is not None:
        return name
    raise BadRequest(
        f"{name} has no dev split, and what is chosen on its problems must not be reported on them. Set a "
        "share of them aside, such as the first of four, and report on the others."
    )


def drawn_order(task: Task, shard: tuple[int, int] | None, limit: int | None = None) -> list[str]:
    """The problems in an order that has nothing to do with the file's, the same every time."""
    chosen = Selection(shard=shard).of(task.samples())
    keys = sorted((str(sample.id) for sample in chosen), key=lambda key: (digest(key), key))
    return keys[:limit]


@dataclass(frozen=True)
class Search:
    """Candidates on the problems `keys` of a task, within a number of minutes."""

    workspace: Workspace
    task: str
    keys: Sequence[str]
    candidates: Mapping[str, Candidate]
    minutes: float
    finalists: int = FINALISTS

    def __post_init__(self) -> None:
        if not self.minutes > 0:
            raise BadRequest(
                f"The budget must be a number of minutes above 0, not {self.minutes:g}."
            )
        if len(self.candidates) < 2:
            raise BadRequest("There is only one candidate: nothing to choose from.")
        if len(self.keys) <= CALIBRATED:
            raise BadRequest(
                f"{self.task} has {len(self.keys)} problems to search on; more than {CALIBRATED} are needed."
            )

    def run(self, progress: Progress) -> SearchHistory:
        """To the end, from wherever the folder is."""
        self._claim()
        lock = Lock(self.workspace.out)
        try:
            self._check()
            return self._search(progress)
        finally:
            lock.release()

    def _search(self, progress: Progress) -> SearchHistory:
        plan = rounds(len(self.candidates), self.finalists)
        progress.round(0, len(plan), len(self.candidates), CALIBRATED)
        first, calibration = self._calibrated(progress)
        done, budget = [first], self.minutes * MINUTE
        needed = least_seconds(first.shown, calibration, self.finalists)
        if needed > budget:
            raise BadRequest(
                f"{self.minutes:g} minutes are too few for {len(self.candidates)} methods: give "
                f"{int(needed / MINUTE) + 1} or more, or name fewer methods. What was measured is kept."
            )
        used = CALIBRATED
        left = list(self.candidates)
        for number, count in enumerate(plan, start=1):
            so_far = SearchHistory(self.candidates, done, self.keys)
            seen = {label: so_far.seen(label) for label in left}
            if len(left) > count:
                left = survivors(seen, count, REFERENCE)
                seen = {label: seen[label] for label in left}
            unseen = len(self.keys) - used
            if not unseen:
                break
            rest = budget - spent([each.shown for each in done], calibration)
            new = problems(seen, calibration, rest, len(plan) - number + 1, unseen)
            progress.round(number, len(plan), len(left), new)
            keys = self.keys[used : used + new]
            arms = {label: self._arm(label, keys, progress)[0] for label in left}
            done.append(_round(arms, keys))
            used += new
        return SearchHistory(self.candidates, done, self.keys)

    def _calibrated(self, progress: Progress) -> tuple[Round, Calibration]:
        keys, path = self.keys[:CALIBRATED], self.workspace.out / CALIBRATION
        arms, beside = {}, []
        for label in self.candidates:
            started = time.monotonic()
            arms[label], new = self._arm(label, keys, progress)
            if new:
                decoding = arms[label].summary.seconds / min(self._workers, len(keys))
                beside.append(time.monotonic() - started - decoding)
        first = _round(arms, keys)
        if not path.exists():
            calibration = {
                "seconds_per_operation": {
                    label: first.seconds[label] / first.shown[label].cost for label in arms
                },
                "seconds_per_run": max(0.0, mean(beside)) if beside else 0.0,
                "workers": self._workers,
            }
            replace_json(path, calibration)
        try:
            return first, Calibration(**read_json(path))
        except TypeError as error:
            raise BadRun.beyond_repair(f"{path} is damaged: it holds no calibration") from error

    @property
    def _workers(self) -> int:
        executor = self.workspace.executor
        return 1 if executor is None else executor.workers

    def _arm(self, label: str, keys: Sequence[str], progress: Progress) -> tuple[Arm, bool]:
        """A candidate on some problems, and whether anything had to be run for it."""
        candidate = self.candidates[label]
        run = self.workspace.request(candidate.method, self.task, **candidate.settings)
        request = replace(run, selection=Selection(subset=tuple(keys)))
        there = self.workspace.is_finished(request)
        if there:
            progress.skipped(len(keys))
        return self.workspace.finished(request), not there

    def _claim(self) -> None:
        """Refuse a folder of something else before a file is written into it."""
        out = self.workspace.out
        try:
            out.mkdir(parents=True, exist_ok=True)
            strange = any(out.iterdir()) and not (out / SEARCH).exists()
        except OSError as error:
            raise DiskFault.of(out, error) from error
        if strange and {each.name for each in out.iterdir()} - {"lock", f"{SEARCH}.new"}:
            raise BadRun(f"{out} holds other files and no search; choose an empty folder.")

    def _check(self) -> None:
        path, request = self.workspace.out / SEARCH, self._plan()
        if not path.exists():
            replace_json(path, request)
            return
        differing = differences(read_json(path), request)
        if differing:
            raise BadRun(
                f"{path.parent} holds another search ({'; '.join(differing[:MOST_NAMED])}). Ask for the same "
                "to continue it, or choose another folder."
            )

    def _plan(self) -> dict[str, Any]:
        """What decides the course of a search; what a single run depends on stands in its manifest."""
        return {
            "version": VERSION,
            "task": self.task,
            "problems": digest(list(self.keys)),
            "candidates": {
                label: {"method": each.method, "settings": plain(each.settings)}
                for label, each in self.candidates.items()
            },
            "finalists": self.finalists,
        }


def _round(arms: Mapping[str, Arm], keys: Sequence[str]) -> Round:
    shown, seconds = {}, {}
    for label, arm in arms.items():
        records = [arm.run.recorded.samples[key] for key in keys]
        operations = tuple(record.operations for record in records)
        shown[label] = Seen(tuple(arm.passed(key) for key in keys), operations)
        seconds[label] = math.fsum(record.seconds.total for record in records)
    return Round(shown, seconds)
