"""The command line: a table of commands, and what they share when something goes wrong.

Each command lives in a file of its own, which is imported when it is called.  `main` is the only
place that turns errors into exit codes.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from types import FrameType
from typing import Any

from cyclopts import App, CycloptsError, Parameter

from archer import __version__
from archer.cli.messages import complain, told
from archer.errors import ArcherError

COMMANDS = {
    "generate": ("archer.cli.generate:generate", "Answer prompts, and show how the answer forms."),
    "serve": ("archer.cli.serve:serve", "Serve a model by OpenAI's API, with a page to watch it."),
    "eval": ("archer.cli.eval:evaluate", "Score a model on benchmarks; resumable."),
    "compare": ("archer.cli.compare:compare", "Compare runs problem by problem."),
    "grade": ("archer.cli.grade:grade", "Grade given completions of a benchmark."),
    "train": ("archer.cli.train:train", "Train the bundled model anew."),
    "lm-eval": ("archer.cli.lm_eval:lm_eval", "Run the lm-evaluation-harness with Archer."),
    "replay": ("archer.cli.replay:replay", "Re-run recorded trajectories and compare them."),
    "view": ("archer.cli.view:view", "Watch recorded trajectories in a page."),
    "bench": ("archer.cli.bench:app", "Measure what decoding costs on this machine."),
    "report": ("archer.cli.report:report", "Turn runs into one page."),
    "study": ("archer.cli.study:study", "Measure one table or figure of the paper."),
    "reproduce": ("archer.cli.study:reproduce", "Run all studies and write a report."),
    "tasks": ("archer.cli.catalogue:tasks", "List the benchmarks and where their data are."),
    "methods": ("archer.cli.catalogue:methods", "List decoders, caches and their settings."),
    "models": ("archer.cli.catalogue:models", "List the models that can be loaded."),
    "doctor": ("archer.cli.doctor:doctor", "Say what this machine can do."),
    "completion": ("archer.cli.completion:completion", "Print a shell's completion script."),
    "demo": ("archer.cli.demo:demo", "See a response being denoised, without a download."),
}
"""Name -> the function that does it, and one line about it."""

RESUMABLE = frozenset(("eval", "study", "reproduce", "train"))
"""Commands that go on where they were when they are given again."""

STDIN = ("--prompt-file", "-")
USAGE = 2
INTERRUPTED = 130
TERMINATED = 143
UNHEARD = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    tokens = with_stdin(sys.argv[1:] if argv is None else list(argv))
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with told(), _ended_in_order():
            code = app()(
                tokens, exit_on_error=False, print_error=False, result_action="return_value"
            )
            sys.stdout.flush()
    except CycloptsError as error:
        complain(f"{error} See `archer --help`.")
        return USAGE
    except ArcherError as error:
        complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        complain(_interrupted(tokens))
        return INTERRUPTED
    except Terminated:
        complain("terminated.")
        return TERMINATED
    except BrokenPipeError:
        return _unheard()
    return code or 0


class Terminated(BaseException):
    """SIGTERM came: what is open is closed, as after Ctrl-C."""


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """While this lasts, SIGTERM does not end the process where it stands."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


def app() -> App:
    """The commands as cyclopts knows them; each is imported when it is called."""
    made = App(
        name="archer",
        help="Fast inference for diffusion language models that are allowed to change their mind.",
        help_format="plaintext",
        version=__version__,
        suppress_keyboard_interrupt=False,
        default_parameter=Parameter(negative=(), show_default=_shown),
    )
    for name, (target, summary) in COMMANDS.items():
        made.command(target, name=name, help=summary)
    return made


def with_stdin(tokens: list[str]) -> list[str]:
    """`archer generate -`: the argument that many tools know, which cyclopts takes for an option."""
    if tokens[:1] != ["generate"] or "--" in tokens or "--prompt-file" in tokens:
        return tokens
    return [each for token in tokens for each in (STDIN if token == "-" else (token,))]


def _shown(value: Any) -> str | None:
    """A default as the help tells it; switches that are off, and what is empty, need no word."""
    return None if value is None or value is False or value == () else str(value)


def _interrupted(tokens: Sequence[str]) -> str:
    if tokens and tokens[0] in RESUMABLE:
        return f"interrupted. This goes on where it stopped: {shlex.join(('archer', *tokens))}"
    return "interrupted."


def _unheard() -> int:
    """The reader of stdout has gone: be quiet, also when the interpreter closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return UNHEARD
