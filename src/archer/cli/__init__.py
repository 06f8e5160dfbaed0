"""The command line: a table of commands, imported when called, and the exit codes of errors."""

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from types import FrameType
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter

from archer import __version__
from archer.cli.messages import complain, crash, reporting
from archer.cli.output import write_text
from archer.errors import ArcherError, reason_of

COMMANDS = {
    "generate": ("archer.cli.generate:generate", "Answer prompts, and show how the answer forms."),
    "fill": ("archer.cli.fill:fill", "Fill the gaps of a text, and show how they are filled."),
    "score": ("archer.cli.score:score", "Estimate how probable a model finds texts."),
    "serve": ("archer.cli.serve:serve", "Serve a model through OpenAI's API."),
    "eval": ("archer.cli.eval:evaluate", "Score a model on benchmarks; resumable."),
    "tune": ("archer.cli.tune:tune", "Find the best trade-off of score and cost; resumable."),
    "compare": ("archer.cli.compare:compare", "Compare runs problem by problem."),
    "grade": ("archer.cli.grade:grade", "Grade completions you already have."),
    "lm-eval": ("archer.cli.lm_eval:lm_eval", "Run the lm-evaluation-harness with Archer."),
    "replay": ("archer.cli.replay:replay", "Re-run recorded trajectories and compare them."),
    "view": ("archer.cli.view:view", "Watch recorded trajectories in a browser."),
    "plan": ("archer.cli.plan:plan", "Estimate how many GPUs a load needs, by simulation."),
    "bench": ("archer.cli.bench:app", "Measure what decoding costs on this machine."),
    "report": ("archer.cli.report:report", "Turn runs into one page."),
    "study": (
        "archer.cli.study:study",
        "Measure one table or figure, from the paper or beyond it.",
    ),
    "reproduce": ("archer.cli.study:reproduce", "Run all studies of the paper and write a report."),
    "tasks": ("archer.cli.catalogue:tasks", "List the benchmarks and where their data is."),
    "methods": ("archer.cli.catalogue:methods", "List decoders, caches and their settings."),
    "models": ("archer.cli.catalogue:models", "List the models that can be loaded."),
    "doctor": ("archer.cli.doctor:doctor", "Check what this machine can do."),
    "completion": ("archer.cli:completion", "Print a completion script for your shell."),
    "demo": ("archer.cli.demo:demo", "Watch two methods solve a problem, without a download."),
}
"""Name -> the function that does it, and one line about it."""

RESUMABLE = frozenset(("eval", "tune", "study", "reproduce"))
"""Commands that resume when run again."""

NAME = "archer"
ABOUT = "Fast inference for diffusion language models, with decoders that may take tokens back."
STDIN = ("--prompt-file", "-")
USAGE = 2
INTERRUPTED = 130
TERMINATED = 143
UNHEARD = 141
UNUSABLE = 4
"""A file or folder that the operating system denies, as where a run cannot be written."""


def main(argv: Sequence[str] | None = None, other: App | None = None) -> int:
    """Run one command; the exit code. `other` is another command that wants to end as these do."""
    tokens = with_stdin(sys.argv[1:] if argv is None else list(argv))
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with reporting(), _ended_in_order():
            if _follows(tokens):
                follow(tokens)
            code = (other or app())(
                tokens, exit_on_error=False, print_error=False, result_action="return_value"
            )
            sys.stdout.flush()
    except CycloptsError as error:
        command = " ".join((_name(other), *(error.command_chain or ())))
        complain(f"{error} See `{command} --help`.")
        return USAGE
    except ArcherError as error:
        complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        going_on = _resuming(tokens, other)
        complain(f"interrupted.{' To resume:' if going_on else ''}", command=going_on)
        return INTERRUPTED
    except Terminated:
        complain("terminated.")
        return TERMINATED
    except BrokenPipeError:
        return _unheard()
    except OSError as error:
        if error.filename is None:
            sys.excepthook = crash
            raise
        complain(f"{error.filename} cannot be used ({reason_of(error)}).")
        return UNUSABLE
    except Exception:
        sys.excepthook = crash  # it goes on to whoever called, in the end to the interpreter
        raise
    return code or 0


def _follows(tokens: Sequence[str]) -> bool:
    """Whether torchrun started this process as a shard that is not the first."""
    return os.environ.get("RANK", "0") != "0" and any(
        token.partition("=")[0] == "--shards" for token in tokens
    )


def follow(tokens: Sequence[str]) -> None:
    """Of a command only load the model: this process stays there, computing, until the first shard ends."""
    from archer.cli.options import ModelOptions

    _, bound, _ = app().parse_args(tokens, exit_on_error=False, print_error=False)
    for value in bound.arguments.values():
        if isinstance(value, ModelOptions):
            value.load()


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
    return command(NAME, ABOUT, COMMANDS)


def command(name: str, about: str = "", commands: Mapping[str, tuple[str, str]] = {}) -> App:
    """A command with Archer's habits: plain help, no negated switches, Ctrl-C left to `main`."""
    whole = App(
        name=name,
        help=about,
        help_format="plaintext",
        version=__version__,
        suppress_keyboard_interrupt=False,
        default_parameter=Parameter(negative=(), show_default=shown),
    )
    for each, (target, summary) in commands.items():
        whole.command(target, name=each, help=summary)
    return whole


def with_stdin(tokens: list[str]) -> list[str]:
    """`archer generate -`: the argument that many tools know, which cyclopts takes for an option."""
    if tokens[:1] != ["generate"] or "--" in tokens or "--prompt-file" in tokens:
        return tokens
    return [
        each
        for before, token in zip(["", *tokens], tokens, strict=False)
        for each in (STDIN if token == "-" and before != "--messages" else (token,))
    ]


def shown(value: Any) -> str | None:
    """A default as the help tells it; switches that are off, and what is empty, need no word."""
    if value is None or value is False or value == ():
        return None
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _name(other: App | None) -> str:
    return NAME if other is None else other.name[0]


def _resuming(tokens: Sequence[str], other: App | None) -> str:
    """The command that goes on after Ctrl-C, where there is one."""
    if other is not None or (tokens and tokens[0] in RESUMABLE):
        return f"{_name(other)} {shlex.join(tokens)}"
    return ""


def _unheard() -> int:
    """The reader of stdout has gone: be quiet, also when the interpreter closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return UNHEARD


WHERE = (
    "Save the script, for bash as ~/.local/share/bash-completion/completions/archer, for zsh as _archer "
    "in a folder of your fpath, for fish as ~/.config/fish/completions/archer.fish."
)
Shell = Annotated[Literal["bash", "zsh", "fish"], Parameter(help=WHERE)]


def completion(shell: Shell, /) -> int:
    """Print a completion script for your shell."""
    from archer.cli import app

    write_text(app().generate_completion(shell=shell))
    return 0
