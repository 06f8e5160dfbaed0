"""Processes that tests start, each over when its block is, and what the system says of processes."""

import json
import os
import subprocess
import sys
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


def ran(*command: object, code: int | None = 0, **options: Any) -> subprocess.CompletedProcess[str]:
    """A process that has ended, with this exit code unless that is None, and what it wrote."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    assert code is None or done.returncode == code, done.stderr
    return done


def reported(module: str, *arguments: object, **environment: str) -> dict[str, Any]:
    """The JSON object that a module of the tests prints, run in a process of its own."""
    path = os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": path, **environment},
        stdout=subprocess.PIPE,
        check=True,
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def end(process: subprocess.Popen[Any]) -> None:
    """Kill it, which also ends a stopped process, and close its pipes."""
    process.kill()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    process.wait(PATIENCE)


def alive(pid: int) -> bool:
    """A zombie has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    """Living processes that any thread of a process has started; nothing where it has ended meanwhile."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, path.read_text().split())
    return [each for each in found if alive(each)]


def descendants(pid: int) -> list[int]:
    """Living processes that a process has started, directly or not."""
    found = [pid]
    for each in found:
        found += children(each)
    return found[1:]


def descriptors() -> int:
    """Open files of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))
