"""Words to the user besides the result: one line each, on stderr, after `archer:`."""

from __future__ import annotations

import logging
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TextIO

from rich.cells import cell_len

from archer.cli.output import columns_of, fitted
from archer.errors import one_line, printable
from archer.request import LongerThanTrained

LONGEST_CHAIN = 5
IN_A_SHELL = {
    "compiled=True": "--compile",
    "chat=False": "--raw",
    "allow_special=True": "--allow-special",
    "such as [5, 7, 9]": "such as --prompt-ids 5,7,9",
    "raise max_length": "raise --max-length",
    "Give a file of keys": "Give --api-key-file FILE",
    "say that everybody may use it without a key": "say --without-key if everybody may use it",
}
"""What the library advises in Python, and how the same is asked for on the command line."""


def complain(sentence: str, *, command: str = "") -> None:
    """One line; a terminal gets it broken between words.

    A `command` at its end is there to be copied and is never broken: where a terminal has no room for
    it beside the rest, it gets a line of its own.
    """
    for advice, option in IN_A_SHELL.items():
        sentence = sentence.replace(advice, option)
    line = f"archer: {' '.join(printable(sentence).split())}"
    whole = f"{line} {one_line(command)}" if command else line
    if sys.stderr.isatty() and cell_len(whole) > columns_of(sys.stderr):
        line = fitted(line, sys.stderr)
        whole = f"{line}\n{one_line(command)}" if command else line
    sys.stderr.write(f"{whole}\n")
    sys.stderr.flush()


def crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """The traceback of an error of Archer's own: where it was, and in one line what it says.

    The words of an error may be a stranger's, so they are shown as all texts of strangers are.
    """
    chain = [error]
    while len(chain) < LONGEST_CHAIN and (below := chain[-1].__cause__ or chain[-1].__context__):
        chain.append(below)
    for each in reversed(chain):
        sys.stderr.write("Traceback (most recent call last):\n")
        sys.stderr.writelines(traceback.format_tb(each.__traceback__))
        sys.stderr.write(f"{type(each).__name__}: {one_line(str(each))}\n")
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
