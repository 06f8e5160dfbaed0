"""How far a run is: a bar in a terminal, now and then a line elsewhere."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from archer.runs.records import GradeLine, SampleLine

MOST_SHOWN = 6
"""Workers whose rows are shown one by one."""
BETWEEN_LINES = 30.0
"""Seconds between two lines where there is no terminal."""


class RunProgress:
    """Listens to a run, or to one after the other. `say` is given lines where no bar can be drawn."""

    def __init__(self, name: str, console: Console, say: Callable[[str], None]) -> None:
        self._name, self._console, self._say = name, console, say
        self._guard = threading.Lock()
        self._rows: Counter[int] = Counter()
        self._total = self._earlier = self._done = self._graded = self._passed = 0
        self._started = self._spoken = time.monotonic()
        self._bar: Progress | None = None
        self._line: TaskID | None = None

    def __enter__(self) -> RunProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begun(self, total: int, recorded: Any) -> None:
        self._total, self._earlier = total, len(recorded.samples)
        self._done, self._graded = self._earlier, len(recorded.grades)
        self._passed = sum(_passed(grade) for grade in recorded.grades.values())
        self._rows.clear()
        self._started = self._spoken = time.monotonic()
        if self._earlier or self._graded:
            self._say(f"{self._name}: resuming, {self._done} of {total} already done.")
        if self._bar is not None:
            self._bar.stop()
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[score]}"),
                console=self._console,
            )
            self._line = self._bar.add_task(
                self._name, total=total, completed=self._done, rate="", score=self._score()
            )
            self._bar.start()

    def sampled(self, record: SampleLine, worker: int) -> None:
        with self._guard:
            self._done += 1
            self._rows[worker] += 1
            self._show()

    def told(self, line: str) -> None:
        """In a terminal the bar moves down and the line stays above it."""
        with self._guard:
            self._say(f"{self._name}: {line}")

    def graded(self, record: GradeLine) -> None:
        with self._guard:
            self._graded += 1
            self._passed += _passed(record)
            self._show()

    def _show(self) -> None:
        if self._bar is not None and self._line is not None:
            self._bar.update(
                self._line, completed=self._done, rate=self._pace(), score=self._score()
            )
        elif time.monotonic() - self._spoken >= BETWEEN_LINES:
            self._spoken = time.monotonic()
            self._say(
                f"{self._name}: {self._done} of {self._total}, {self._pace()}, {self._score()}."
            )

    def _rate(self) -> str:
        seconds = max(time.monotonic() - self._started, 1e-9)
        rate = (self._done - self._earlier) / seconds
        return f"{rate:.1f}/s" if rate >= 1 or rate == 0 else f"{1 / rate:.1f} s each"

    def _pace(self) -> str:
        """The rate, and how many problems each worker has done where there are several."""
        rows = self._rows
        if len(rows) < 2:
            return self._rate()
        if len(rows) > MOST_SHOWN:
            few, many = min(rows.values()), max(rows.values())
            return f"{self._rate()}, {len(rows)} workers: {few} to {many} each"
        return f"{self._rate()}, by worker: {' '.join(str(rows[each]) for each in sorted(rows))}"

    def _score(self) -> str:
        if not self._graded:
            return "no grades yet"
        return f"{self._passed} of {self._graded} right ({self._passed / self._graded:.1%})"


def _passed(grade: GradeLine) -> bool:
    return grade.passed(next(iter(grade.suites)))
