"""The console script as a process of its own: pipes, signals, a real terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from support.folders import make_llada
from support.terminals import heed_interrupts

SCRIPT = "import sys; from archer.cli import main; sys.exit(main())"
COMMAND = [sys.executable, "-c", SCRIPT]
SECONDS = 120


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_llada(tmp_path_factory.mktemp("model"), tokenizer=True))


def environment(**changes: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    return kept | {"OMP_NUM_THREADS": "1", "TERM": "xterm-256color"} | changes


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        env=environment(),
        timeout=SECONDS,
        check=False,
    )


def test_stdin_to_plain_text(model: str) -> None:
    done = run(
        "generate", "--model", model, "--prompt-file", "-", "--length", "8", stdin=b"Hello\n"
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(b"\n")
    assert b"masked" not in done.stdout


def test_stdin_that_is_not_utf8(model: str) -> None:
    done = run("generate", "--model", model, "--prompt-file", "-", stdin=b"caf\xe9")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"archer: The prompt in stdin is not UTF-8: byte 3")


def test_json_in_a_pipe(model: str) -> None:
    done = run("generate", "--model", model, "--prompt-ids", "5,7", "--length", "8", "--json")
    assert done.returncode == 0
    assert len(json.loads(done.stdout)["completions"][0]["tokens"]) == 8


def test_a_reader_that_leaves_is_no_error(model: str) -> None:
    child = subprocess.Popen(
        [*COMMAND, "generate", "--model", model, "--prompt-ids", "5", "--length", "8"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert child.stdout is not None
    assert child.stderr is not None
    with child:
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(SECONDS) == 141


def test_light_commands_leave_torch_alone() -> None:
    calls = [["--help"], ["--version"], ["generate", "--help"], ["models"], ["generate", "--nope"]]
    script = (
        "import sys; from archer.cli import main\n"
        f"for argv in {calls!r}: main(argv)\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 0


class Watched:
    """A child at a pseudo-terminal, and everything it wrote there."""

    def __init__(self, *arguments: str) -> None:
        self.outside, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.child = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            env=environment(),
            start_new_session=True,
            preexec_fn=heed_interrupts,
        )
        os.close(inside)
        self.written = b""

    def read_until(self, pattern: bytes) -> None:
        deadline = time.monotonic() + SECONDS
        while re.search(pattern, self.written) is None and time.monotonic() < deadline:
            try:
                self.written += os.read(self.outside, 65536)
            except OSError:  # how a pseudo-terminal says that the other side has left
                return

    def finish(self) -> int:
        self.read_until(b"(?!)")
        code = self.child.wait(SECONDS)
        os.close(self.outside)
        return code


def test_an_interrupt_leaves_the_terminal_intact(model: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    arguments = ["--prompt-ids", "5", "--length", "480", "--method", "llada-confidence"]
    arguments += ["--steps", "9600"]
    watched = Watched("generate", "--model", model, *arguments, "--trace", str(trace))
    watched.read_until(rb"update +[3-9]")
    os.kill(watched.child.pid, signal.SIGINT)
    assert watched.finish() == 130
    assert b"Traceback" not in watched.written
    assert watched.written.rindex(b"\x1b[?25h") > watched.written.rindex(b"\x1b[?25l")
    last = watched.written.rpartition(b"\x1b[2K")[2]
    assert re.sub(rb"\x1b\[[?\d;]*\w", b"", last) == b"archer: interrupted.\r\n"
    assert b'"event":"update"' in trace.read_bytes()


def test_a_terminal_ends_with_text_and_summary(model: str) -> None:
    watched = Watched("generate", "--model", model, "--prompt-ids", "5", "--length", "8")
    assert watched.finish() == 0
    assert b"\x1b[?25l" in watched.written
    rest = watched.written.rpartition(b"\x1b[?25h")[2]
    assert re.search(rb"\d+ updates: \d+ full, \d+ cached", rest)
