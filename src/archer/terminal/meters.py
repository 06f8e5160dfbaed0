"""How far a run or a search is: a bar in a terminal, now and then a line elsewhere."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from archer.runs.records import GradeLine, SampleLine

MOST_SHOWN = 6
"""Workers whose rows are shown one by one."""
BETWEEN_LINES = 10.0
"""Seconds between two lines where there is no terminal."""


class Meter:
    """One bar after the other on a console; `say` is given lines where no bar can be drawn."""

    def __init__(self, console: Console, say: Callable[[str], None]) -> None:
        self._console, self._say = console, say
        self._guard = threading.Lock()
        self._spoken = time.monotonic()
        self._bar: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @property
    def drawn(self) -> bool:
        """Whether there is a bar."""
        return self._console.is_terminal

    def _start(
        self, name: str, total: int, done: int, columns: tuple[ProgressColumn, ...], **fields: Any
    ) -> None:
        self._stop()
        if not self.drawn:
            return
        first = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        bar = Progress(*first, *columns, console=self._console)
        self._bar = bar, bar.add_task(name, total=total, completed=done, **fields)
        bar.start()

    def _move(self, done: int, line: Callable[[], str], **fields: Any) -> None:
        """Draw how many are done; elsewhere say `line`, if nothing was said for a while."""
        if self._bar is not None:
            bar, task = self._bar
            bar.update(task, completed=done, **fields)
        elif time.monotonic() - self._spoken >= BETWEEN_LINES:
            self._spoken = time.monotonic()
            self._say(line())

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar[0].stop()
            self._bar = None


class RunProgress(Meter):
    """Listens to a run, or to one after the other."""

    def __init__(self, name: str, console: Console, say: Callable[[str], None]) -> None:
        super().__init__(console, say)
        self._name = name
        self._rows: Counter[int] = Counter()
        self._total = self._earlier = self._done = self._graded = self._passed = 0
        self._started = time.monotonic()

    def begun(self, total: int, recorded: Any) -> None:
        self._total, self._earlier = total, len(recorded.samples)
        self._done, self._graded = self._earlier, len(recorded.grades)
        self._passed = sum(_passed(grade) for grade in recorded.grades.values())
        self._rows.clear()
        self._started = time.monotonic()
        if self._earlier or self._graded:
            self._say(f"{self._name}: resuming, {self._done} of {total} already done.")
        rate, score = (TextColumn(f"{{task.fields[{name}]}}") for name in ("rate", "score"))
        columns = (rate, TimeRemainingColumn(), score)
        self._start(self._name, total, self._done, columns, rate="", score=self._score())

    def sampled(self, record: SampleLine, worker: int) -> None:
        with self._guard:
            self._done += 1
            self._rows[worker] += 1
            self._show()

    def notice(self, line: str) -> None:
        """In a terminal the bar moves down and the line stays above it."""
        with self._guard:
            self._say(f"{self._name}: {line}")

    def graded(self, record: GradeLine) -> None:
        with self._guard:
            self._graded += 1
            self._passed += _passed(record)
            self._show()

    def _show(self) -> None:
        self._move(self._done, self._line, rate=self._pace(), score=self._score())

    def _line(self) -> str:
        return f"{self._name}: {self._done} of {self._total}, {self._pace()}, {self._score()}."

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


class TuneProgress(Meter):
    """Listens to a search: one bar per round."""

    def __init__(self, console: Console, say: Callable[[str], None]) -> None:
        super().__init__(console, say)
        self._name, self._total, self._done = "", 0, 0

    def round(self, number: int, of: int, methods: int, problems: int) -> None:
        """A round begins; its runs follow."""
        self._name = f"round {number} of {of}" if number else "calibration"
        self._total, self._done = methods * problems, 0
        name = f"{self._name}: {methods} methods, {problems} problems"
        self._start(name, self._total, 0, (TimeElapsedColumn(), TimeRemainingColumn()))
        if not self.drawn:
            self._say(f"{self._name}: {methods} methods, {problems} more problems.")

    def skipped(self, problems: int) -> None:
        """Problems of the round that were done already; each that is decoded counts the same."""
        with self._guard:
            self._done += problems
            self._move(self._done, lambda: f"{self._name}: {self._done} of {self._total} decoded.")

    def begun(self, total: int, recorded: Any) -> None:
        """A run begins or goes on."""
        self.skipped(len(recorded.samples))

    def sampled(self, record: SampleLine, worker: int = 0) -> None:
        self.skipped(1)

    def graded(self, record: GradeLine) -> None:
        """The bar counts what was decoded."""

    def notice(self, line: str) -> None:
        """Something about the workers that a user should know."""
        self._say(line)


def _passed(grade: GradeLine) -> bool:
    return grade.passed(next(iter(grade.suites)))
