"""`archer generate`: prompts in, responses out, in a terminal with the view of how they form."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from archer.cli.messages import complain, loading, silence
from archer.cli.options import (
    DEFAULT_MODEL,
    MethodOptions,
    ModelOptions,
    OutputOptions,
    PromptOptions,
)
from archer.cli.output import emit, write_text
from archer.errors import BadRequest, printable
from archer.files import utf8_text
from archer.loading.hub import BUNDLED
from archer.terminal.glyphs import QUIET
from archer.terminal.live import summary

if TYPE_CHECKING:
    from archer.model import Model
    from archer.request.request import Request
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

    Args:
        prompts: Texts, one prompt each; - reads one from stdin.
    """
    return answered(
        gather(prompts, prompt),
        model,
        method,
        output,
        seed=prompt.seed,
        chat=not prompt.raw,
        allow_special=prompt.allow_special,
        suffix=prompt.suffix,
        schema=None if prompt.schema is None else read_text(prompt.schema),
        regex=prompt.regex,
        choices=list(prompt.choices) or None,
        samples=prompt.samples,
    )


def answered(
    entries: Sequence[Any],
    model: ModelOptions,
    method: MethodOptions,
    output: OutputOptions,
    *,
    whole: bool = False,
    samples: int = 1,
    **how: Any,
) -> int:
    """Decode what is asked and show it; with `whole`, the given text around the answer as well.

    Samples are the same prompt several times: equal prompts of a request have noise of their own.
    """
    from archer.files import check_target

    if output.out is not None:
        check_target(output.out)
    with loading(model.name):
        chosen = method.chosen()
        chosen.check()
        from archer.cli.live_run import console_to_draw_on, run
        from archer.engine.job import check_samples
        from archer.results.trace import Writer

    check_samples(samples)
    prompts = [entry for entry in entries for _ in range(samples)]

    with ExitStack() as stack:
        if output.quiet:
            stack.enter_context(silence())
        writer = None if output.trace is None else stack.enter_context(Writer(output.trace))
        requests: list[Request] = []

        def check(outline: Model) -> None:
            settings = chosen.settings
            made = outline.request(
                prompts, chosen.method, preset=chosen.preset, settings=settings, **how
            )
            requests.append(made)

        loaded = model.load(check)
        (request,) = requests
        if not output.quiet and loaded.name in BUNDLED and not whole:
            _hint(loaded.name, entries)
        if samples > 1 and not request.method.decoder.draws:
            complain("At temperature 0 all samples of a prompt are equal: give --temperature.")
        plain = output.json or output.plain or output.quiet
        console = None if plain else console_to_draw_on()
        done = run(loaded, request, writer=writer, console=console)
    result = _as_dict(loaded.name, request, done)
    if output.out is not None:
        _write_lines(output.out, prompts, done)
    emit(result, lambda: _show(done, console, whole), json=output.json)
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
    from archer.methods.spelling import plain

    return {
        "model": model,
        "method": request.method.name,
        "settings": plain(request.method.settings),
        "seed": request.seed,
        "completions": [each.to_dict(per_token=True) for each in done],
    }


def _write_lines(path: Path, prompts: Sequence[Any], done: Sequence[Completion]) -> None:
    """A line per answer: its prompt, its text and cost, and how it was made."""
    from archer.files import replace_file
    from archer.request.fill import Fill

    lines = [
        {"prompt": list(prompt.parts) if isinstance(prompt, Fill) else prompt, **each.to_dict()}
        for prompt, each in zip(prompts, done, strict=True)
    ]
    text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
    replace_file(path, text.encode())


def _show(done: Sequence[Completion], console: Console | None, whole: bool) -> None:
    """The text of every response, or its ids where the model has no tokenizer."""
    for each in done:
        answer = each.whole if whole else each.text
        text = ",".join(map(str, each.tokens)) if answer is None else answer
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


Entry = str | list[int] | list[dict[str, str]]


def gather(texts: Sequence[str], options: PromptOptions) -> list[Entry]:
    """One entry per row: arguments first, then the file, the chat, and the id lists."""
    entries: list[Entry] = [_text(text) for text in texts]
    if options.prompt_file is not None:
        entries.append(_text(read_text(options.prompt_file)))
    if options.messages is not None:
        entries.append(_chat(options.messages))
    entries.extend(_ids(ids) for ids in options.prompt_ids)
    if not entries:
        raise BadRequest(
            "There is no prompt. Give a text, - for stdin, --prompt-file FILE, --messages FILE, or "
            "--prompt-ids 5,7,9."
        )
    return entries


def _text(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadRequest("The prompt is not UTF-8 text.") from error
    if not text.strip():
        raise BadRequest("The prompt is empty. Write what the model should answer.")
    return text


def read_text(path: Path) -> str:
    """The file without the line break that editors put at its end."""
    standard = str(path) == "-"
    read = sys.stdin.buffer.read if standard else path.read_bytes
    text = utf8_text(read, "stdin" if standard else f"The file {str(path)!r}")
    return text.removesuffix("\n").removesuffix("\r")


def _chat(path: Path) -> list[dict[str, str]]:
    """The messages in a JSON file, the last of them to be answered."""
    wrong = (
        f"The chat in {path} must be a JSON list of messages, each with a role and a content, both text: "
        '[{"role": "user", "content": "Hello."}]'
    )
    content = read_text(path)
    try:
        chat = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{wrong}. It is not JSON ({error}).") from error
    if not isinstance(chat, list) or not chat:
        raise BadRequest(f"{wrong}.")
    for place, message in enumerate(chat, start=1):
        match message:
            case {"role": str(), "content": str(), **rest} if not rest:
                continue
            case _:
                raise BadRequest(f"{wrong}. Message {place} is not one.")
    _text("".join(message["content"] for message in chat))
    return chat


def _ids(spelled: str) -> list[int]:
    parts = [part.strip() for part in spelled.split(",")]
    if parts == [""]:
        raise BadRequest("The prompt is empty. Give at least one id, as in --prompt-ids 5,7,9.")
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise BadRequest(
            f"--prompt-ids takes whole numbers with commas between them, as in 5,7,9, not {spelled!r}."
        )
    return [int(part) for part in parts]
