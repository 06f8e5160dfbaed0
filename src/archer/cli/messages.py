"""Words to the user besides the result: one line each, on stderr, after `archer:`."""

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
from archer.errors import LongerThanTrained, one_line, printable

LONGEST_CHAIN = 5
IN_A_SHELL = {
    "compiled=True": "--compile",
    "allow_own_code=True": "--allow-own-code",
    "chat=False": "--raw",
    "allow_special=True": "--allow-special",
    "such as [5, 7, 9]": "such as --prompt-ids 5,7,9",
    "raise max_length": "raise --max-length",
    "Give a file of keys": "Give --api-key-file FILE",
    "say that everybody may use it without a key": "say --without-key if everybody may use it",
    "requests takes": "--requests takes",
    "rate takes": "--rate takes",
    "updates takes": "--updates takes",
    "refreshed a fraction": "--refreshed a fraction",
    "updates and refreshed together": "--updates and --refreshed together",
    "refreshed says what radius": "--refreshed says what --radius",
    "updates 0.58, refreshed 0.18": "--updates 0.58 --refreshed 0.18",
    "efficiency takes": "--efficiency takes",
    "pass_ms and row_ms": "--pass-ms and --row-ms",
    "in_time takes": "--in-time takes",
    "p99 takes": "--p99 takes",
}
"""What the library advises in Python, and how the same is asked for on the command line."""


def complain(sentence: str, *, command: str = "") -> None:
    """One line, broken between words in a terminal; a `command` at its end is never broken, for copying."""
    for advice, option in IN_A_SHELL.items():
        sentence = sentence.replace(advice, option)
    line = f"archer: {' '.join(printable(sentence).split())}"
    whole = f"{line} {one_line(command)}" if command else line
    if sys.stderr.isatty() and cell_len(whole) > columns_of(sys.stderr):
        line = fitted(line, sys.stderr)
        whole = f"{line}\n{one_line(command)}" if command else line
    sys.stderr.write(f"{whole}\n")
    sys.stderr.flush()


@contextmanager
def loading(what: str) -> Iterator[None]:
    """In a terminal, a line at once that goes away again: imports and weights take seconds."""
    if not sys.stderr.isatty() or columns_of(sys.stderr) < len(what) + 24:
        yield
        return
    sys.stderr.write(f"archer: loading {printable(what)} ...")
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()


def crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """The traceback of Archer's own error, whose words may be a stranger's and are shown as such."""
    chain = [error]
    while len(chain) < LONGEST_CHAIN and (below := chain[-1].__cause__ or chain[-1].__context__):
        chain.append(below)
    for each in reversed(chain):
        sys.stderr.write("Traceback (most recent call last):\n")
        sys.stderr.writelines(traceback.format_tb(each.__traceback__))
        sys.stderr.write(f"{type(each).__name__}: {one_line(str(each))}\n")
    sys.stderr.flush()


@contextmanager
def reporting() -> Iterator[None]:
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


@contextmanager
def at_level(level: str) -> Iterator[None]:
    """Log records of this level and above become lines while this lasts; a warning does once.

    Otherwise each client of a server could make as many lines as it sends long prompts.
    """
    log = logging.getLogger("archer")
    places: list[logging.Logger | logging.Handler] = [log, *log.handlers]
    before = [(each, each.level) for each in places]
    for each, _ in before:
        each.setLevel(level.upper())
    try:
        with warnings.catch_warnings():
            unheard = level.upper() == "ERROR"
            warnings.simplefilter("ignore" if unheard else "default", LongerThanTrained)
            yield
    finally:
        for each, number in before:
            each.setLevel(number)


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
