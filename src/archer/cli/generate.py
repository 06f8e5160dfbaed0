"""`archer generate`: prompts in, responses out, in a terminal with the view of how they form."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from archer.cli.messages import complain, silence
from archer.cli.options import (
    DEFAULT_MODEL,
    MethodOptions,
    ModelOptions,
    OutputOptions,
    PromptOptions,
)
from archer.cli.output import emit, write_text
from archer.cli.prompts import Entry, gather
from archer.errors import printable
from archer.loading.hub import BUNDLED
from archer.terminal.glyphs import QUIET
from archer.terminal.live import summary

if TYPE_CHECKING:
    from archer.request import Request
    from archer.results.completion import Completion

FAILED = 1
DEFAULT_PROMPT = PromptOptions()
DEFAULT_METHOD = MethodOptions()
DEFAULT_OUTPUT = OutputOptions()


def generate(
    *prompts: str,
    prompt: PromptOptions = DEFAULT_PROMPT,
    model: ModelOptions = DEFAULT_MODEL,
    method: MethodOptions = DEFAULT_METHOD,
    output: OutputOptions = DEFAULT_OUTPUT,
) -> int:
    """Answer prompts.

    Parameters
    ----------
    prompts
        Texts, one prompt each; - reads one from stdin.
    """
    entries = gather(prompts, prompt)
    chosen = method.chosen()
    chosen.build()
    from archer.cli.live_run import console_to_draw_on, run
    from archer.results.trace import Writer

    with ExitStack() as stack:
        if output.quiet:
            stack.enter_context(silence())
        writer = None if output.trace is None else stack.enter_context(Writer(output.trace))
        loaded = model.load()
        request = loaded.request(
            entries,
            chosen.method,
            seed=prompt.seed,
            chat=not prompt.raw,
            allow_special=prompt.allow_special,
            preset=chosen.preset,
            settings=chosen.settings,
        )
        if not output.quiet and loaded.name in BUNDLED:
            _hint(loaded.name, entries)
        plain = output.json or output.plain or output.quiet
        console = None if plain else console_to_draw_on()
        done = run(loaded, request, writer=writer, console=console)
    result = _as_dict(loaded.name, request, done)
    emit(result, lambda: _show(done, console), json=output.json)
    return _failures(done)


def _hint(model: str, entries: Sequence[Entry]) -> None:
    """What the bundled models can do, where a prompt asks for something else."""
    from archer.pocket.prompts import is_problem

    if not all(is_problem(entry) for entry in entries if isinstance(entry, str)):
        complain(
            f"{model}, a bundled model, only writes the body of a small Python function. It needs a "
            "sentence, a few asserts and a header such as `def solve(nums):`, a line each; `archer demo` "
            "shows one. Anything else gets nonsense. For a model that can chat, use --model."
        )


def _as_dict(model: str, request: Request, done: Sequence[Completion]) -> dict[str, Any]:
    from archer.methods.settings import plain

    return {
        "model": model,
        "method": request.method.name,
        "settings": plain(request.method.settings),
        "seed": request.seed,
        "completions": [each.as_dict() for each in done],
    }


def _show(done: Sequence[Completion], console: Console | None) -> None:
    """The text of every response, or its ids where the model has no tokenizer."""
    for each in done:
        text = ",".join(map(str, each.tokens)) if each.text is None else each.text
        if console is None:
            if each.error is None:
                write_text(text)
            continue
        if each.error is None:
            console.print(Text(printable(text)), soft_wrap=True)
        console.print(Text(summary(each), QUIET))


def _failures(done: Sequence[Completion]) -> int:
    failed = [(row, each.error) for row, each in enumerate(done, start=1) if each.error]
    for row, error in failed:
        complain(f"prompt {row}: {error}" if len(done) > 1 else error)
    return FAILED if failed else 0
