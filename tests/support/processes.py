"""Processes that tests start: each is over when its block is, whatever happened in it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PATIENCE = 60.0
"""Seconds in which the system ends a killed process."""


@contextmanager
def running(command: Sequence[str | Path], **options: Any) -> Iterator[Any]:
    """A process as `Popen` starts it, untyped for its pipes; a failure in the block does not wait for it."""
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[Any]) -> None:
    """Kill it, which also ends a stopped process, and close its pipes."""
    process.kill()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    process.wait(PATIENCE)
