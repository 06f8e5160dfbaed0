"""The console script as a process of its own: pipes, signals, a real terminal."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.folders import make_llada
from support.processes import running
from support.terminals import environment, in_terminal

SCRIPT = "import sys; from archer.cli import main; sys.exit(main())"
COMMAND = [sys.executable, "-c", SCRIPT]
SECONDS = 120


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_llada(tmp_path_factory.mktemp("model"), tokenizer=True))


def test_a_reader_that_leaves_is_no_error(model: str) -> None:
    command = [*COMMAND, "generate", "--model", model, "--prompt-ids", "5", "--length", "8"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with running(command, **pipes, env=environment()) as child:
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


def test_an_interrupt_leaves_the_terminal_intact(model: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    arguments = ["--prompt-ids", "5", "--length", "480", "--method", "llada-confidence"]
    arguments += ["--steps", "9600"]
    written = in_terminal(
        ["generate", "--model", model, *arguments, "--trace", str(trace)],
        interrupt=lambda text: re.search(r"update +[3-9]", text) is not None,
        code=130,
    )
    assert "Traceback" not in written
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")
    last = written.rpartition("\x1b[2K")[2]
    assert re.sub(r"\x1b\[[?\d;]*\w", "", last) == "archer: interrupted.\n"
    assert b'"event":"update"' in trace.read_bytes()


def test_a_terminal_ends_with_text_and_summary(model: str) -> None:
    written = in_terminal(["generate", "--model", model, "--prompt-ids", "5", "--length", "8"])
    assert "\x1b[?25l" in written
    rest = written.rpartition("\x1b[?25h")[2]
    assert re.search(r"\d+ updates: \d+ full, \d+ cached", rest)
