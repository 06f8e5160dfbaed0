"""Words to the user besides the result: one line each, on stderr, after `archer:`."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from archer.cli.output import fitted
from archer.requests import LongerThanTrained
from archer.view.glyphs import printable


def complain(sentence: str) -> None:
    line = f"archer: {' '.join(printable(sentence).split())}"
    sys.stderr.write(f"{fitted(line, sys.stderr) if sys.stderr.isatty() else line}\n")
    sys.stderr.flush()


@contextmanager
def told() -> Iterator[None]:
    """Warnings and log records of Archer become lines on stderr while this lasts."""
    handler = _Lines(logging.WARNING)
    log = logging.getLogger("archer")
    log.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", LongerThanTrained)
            warnings.showwarning = _show
            yield
    finally:
        log.removeHandler(handler)


@contextmanager
def silence() -> Iterator[None]:
    """No warnings while this lasts; errors are still reported."""
    log = logging.getLogger("archer")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        complain(record.getMessage())


def _show(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    complain(str(message))
