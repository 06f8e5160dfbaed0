"""How far a search is: one bar per round in a terminal, now and then a line elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from archer.runs.records import GradeLine, SampleLine
from archer.terminal.run_progress import BETWEEN_LINES


class TuneProgress:
    """Listens to a search. `say` is given lines where no bar can be drawn."""

    def __init__(self, console: Console, say: Callable[[str], None]) -> None:
        self._console, self._say = console, say
        self._guard = threading.Lock()
        self._name, self._total, self._done = "", 0, 0
        self._spoken = time.monotonic()
        self._bar: Progress | None = None
        self._line: TaskID | None = None

    def __enter__(self) -> TuneProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def round(self, number: int, of: int, methods: int, problems: int) -> None:
        """A round begins; its runs follow."""
        what = f"round {number} of {of}" if number else "calibration"
        self._name, self._total, self._done = what, methods * problems, 0
        self._stop()
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=self._console,
            )
            told = f"{what}: {methods} methods, {problems} problems"
            self._line = self._bar.add_task(told, total=self._total)
            self._bar.start()
        else:
            self._say(f"{what}: {methods} methods, {problems} more problems.")

    def skipped(self, problems: int) -> None:
        """A run of the round was there already."""
        with self._guard:
            self._advance(problems)

    def begun(self, total: int, recorded: Any) -> None:
        """A run begins or goes on."""
        with self._guard:
            self._advance(len(recorded.samples))

    def sampled(self, record: SampleLine, worker: int = 0) -> None:
        with self._guard:
            self._advance(1)

    def graded(self, record: GradeLine) -> None:
        """The bar counts what was decoded."""

    def told(self, line: str) -> None:
        """Something about the workers that a user should know."""
        self._say(line)

    def _advance(self, problems: int) -> None:
        self._done += problems
        if self._bar is not None and self._line is not None:
            self._bar.update(self._line, completed=self._done)
        elif time.monotonic() - self._spoken >= BETWEEN_LINES:
            self._spoken = time.monotonic()
            self._say(f"{self._name}: {self._done} of {self._total} decoded.")

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
