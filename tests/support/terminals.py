"""A command in a real terminal of a given size, and what was written to it."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.processes import running

SCRIPT = "import sys; from archer.cli import main; sys.exit(main())"
SEVERAL = """import json, sys
from archer.cli import main
for each in json.loads(sys.argv[1]):
    main(each)
    print(chr(30), flush=True)
"""
"""The same for several commands, a mark behind what each of them wrote."""
WIPED = re.compile(r"[^\n]*\r\x1b\[2K")
STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SECONDS = 120
PROBLEM = """\
Write a function to count the numbers in nums that are greater than 5.
assert solve([1, 7, 9]) == 2
assert solve([2]) == 0
def solve(nums):"""
"""Something that the bundled model can answer."""


def environment(**changes: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    return kept | {"OMP_NUM_THREADS": "1", "TERM": "xterm-256color"} | changes


def heed_interrupts() -> None:
    """A test run in the background hands down that interrupts are ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def closing_descriptor(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)


def _next_part(terminal: int) -> bytes:
    """What was written next; nothing when the other side has left, as Linux says by an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def in_terminal(
    arguments: Sequence[str],
    *,
    columns: int = 80,
    rows: int = 30,
    folder: Path | None = None,
    interrupt: Callable[[str], bool] | None = None,
    code: int | None = 0,
    script: str = SCRIPT,
) -> str:
    """Everything a command wrote; `interrupt` says of what was written that it is time for Ctrl-C."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    command = [sys.executable, "-c", script, *arguments]
    ends = {"stdin": there, "stdout": there, "stderr": there}
    with (
        closing_descriptor(here),
        running(
            command,
            **ends,
            cwd=folder,
            env=environment(),
            start_new_session=True,
            preexec_fn=heed_interrupts,
        ) as child,
    ):
        os.close(there)
        written = b""
        while chunk := _next_part(here):
            written += chunk
            if interrupt is not None and interrupt(written.decode(errors="replace")):
                os.kill(child.pid, signal.SIGINT)
                interrupt = None
        child.wait(SECONDS)
    if code is not None:
        assert child.returncode == code, written.decode(errors="replace")
    return written.decode(errors="replace").replace("\r\n", "\n")


def several_in_terminal(commands: Sequence[Sequence[str]]) -> list[str]:
    """What each command wrote, of several in one process; their exit codes do not matter."""
    written = in_terminal([json.dumps(commands)], script=SEVERAL)
    return [each.removeprefix("\n") for each in written.split("\x1e")[:-1]]


def plain(written: str) -> str:
    """Without colours, steering, and lines that were wiped out again."""
    return STEERING.sub("", WIPED.sub("", written))
