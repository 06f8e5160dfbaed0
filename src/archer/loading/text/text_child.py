"""Renders chat templates, or encodes texts; a program of its own, started by `child_process` and kept.

A template is a program from outside, and so is a tokenizer: its patterns can search for ever, its rules can
make a text longer without end, and the library can stop the process by a panic.  Jinja's sandbox keeps a
template from touching anything but its input.  What neither keeps them from, computing for ever or filling
the memory, takes limits on a process.

Standard input is JSON by lines: first a template (`source`, `names`, `variables`) or a `tokenizer`, then one
request per line: a list of conversations, an `encode` of texts, or `words` or `try` of a text.  Standard
output answers each with one line: `value`, or why there is none (`refused`, `failed`).
Imports nothing of Archer.
"""

import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

CPU_SECONDS = 2
"""For each request."""
LOADING_SECONDS = 10
"""For a template or a tokenizer, before the first request."""
MEMORY = 512 << 20
TOKENIZER_MEMORY = 3 << 30
LONGEST_OUTPUT = 8 << 20
LONGEST_REASON = 300
MOST_REQUESTS = 500
"""A process that renders is renewed after this many requests, whatever a template may have left behind."""
MOST_GROWTH = 64
"""Decoded, a token has at most N times its bytes and `SLACK` together."""
SLACK = 256

Conversation = list[dict[str, str]]
Render = Callable[[Conversation], str]


class Refused(Exception):
    """The template called `raise_exception`."""


class TextAnswers:
    """What this program says to each request; the template or tokenizer is made ready once."""

    def __init__(self, opening: dict[str, Any]) -> None:
        self._count = 0
        self._most = math.inf if "tokenizer" in opening else MOST_REQUESTS
        self._use: Callable[[Any], Any] = self._ready(opening)

    def answer(self, request: str) -> dict[str, Any]:
        """The value, or the fault in one line; `last` asks for another process from now on."""
        self._count += 1
        worn = self._count >= self._most or no_computing_left()
        try:
            return {"value": self._use(json.loads(request)), "last": worn}
        except Refused as error:
            return {"refused": _in_short(str(error)), "last": worn}
        except MemoryError as error:
            return {"failed": _in_short(f"MemoryError: {error}"), "last": True}
        except BaseException as error:  # noqa: BLE001 - whatever it is, a panic too, the caller gets one line
            return {"failed": _in_short(f"{type(error).__name__}: {error}"), "last": worn}

    def _ready(self, opening: dict[str, Any]) -> Callable[[Any], Any]:
        """What is wrong with a template or tokenizer is said to every request."""
        try:
            if "tokenizer" in opening:
                return encoding(opening["tokenizer"])
            return rendering(compiled(**opening))
        except BaseException as error:  # noqa: BLE001
            kept = error

        def fail(_: Any) -> NoReturn:
            raise kept

        return fail


def rendering(render: Render) -> Callable[[list[Conversation]], list[str]]:
    def texts(conversations: list[Conversation]) -> list[str]:
        rendered = [render(each) for each in conversations]
        if max(map(len, rendered), default=0) > LONGEST_OUTPUT:
            raise ValueError(f"the text is longer than {LONGEST_OUTPUT} characters")
        return rendered

    return texts


def compiled(source: str, names: dict[str, str], variables: dict[str, Any] | None = None) -> Render:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    template = environment.from_string(source)
    usual = {"add_generation_prompt": True, "tools": None, "documents": None}
    fixed = {**(variables or {}), **names, **usual}
    return lambda messages: template.render(messages=messages, **fixed)


def encoding(source: str) -> Callable[[dict[str, Any]], Any]:
    """Ids of texts; words of a text as the tokenizer splits it; or nothing, if all tokens can be decoded."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(source)
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def encode(texts: list[str]) -> list[list[int]]:
        ids: list[list[int]] = []
        tokens = characters = 0
        for text in texts:
            ids.append(tokenizer.encode(text, add_special_tokens=False).ids)
            tokens, characters = tokens + len(ids[-1]), characters + len(text)
            if tokens > LONGEST_OUTPUT:
                raise ValueError(f"it makes {tokens} tokens of {characters} characters")
        return ids

    def words(text: str) -> list[str]:
        splitter = tokenizer.pre_tokenizer
        return [text] if splitter is None else [word for word, _ in splitter.pre_tokenize_str(text)]

    def try_out(text: str) -> None:
        (ids,) = encode([text])
        tokenizer.decode(ids, skip_special_tokens=False)
        tokenizer.decode([], skip_special_tokens=False)
        for token, id in tokenizer.get_vocab().items():
            piece = tokenizer.decode([id], skip_special_tokens=False)
            size = len(piece.encode("utf-8", "replace"))
            if size > MOST_GROWTH * (len(token.encode("utf-8", "replace")) + SLACK):
                raise ValueError(f"it makes {size} bytes of one token")

    acts: dict[str, Callable[[Any], Any]] = {"encode": encode, "words": words, "try": try_out}

    def act(request: dict[str, Any]) -> Any:
        ((name, given),) = request.items()
        return acts[name](given)

    return act


def limit_memory(amount: int) -> None:
    """At most so much memory for this process; only Linux keeps the limit."""
    if sys.platform == "linux":
        import resource

        _lower(resource.RLIMIT_AS, amount)
        _lower(resource.RLIMIT_CORE, 0)


def limit_computing(seconds: int) -> None:
    """So much computing from now on: the limit of a process counts from its start."""
    if sys.platform == "linux":
        import resource

        _lower(resource.RLIMIT_CPU, math.ceil(time.process_time()) + seconds)


def no_computing_left() -> bool:
    """The limit that this process was started with will not bear another request."""
    if sys.platform != "linux":
        return False
    import resource

    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    return hard != resource.RLIM_INFINITY and time.process_time() + 2 * CPU_SECONDS > hard


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the program that started this one
    serve(sys.stdin, sys.stdout)


def serve(requests: TextIO, replies: TextIO) -> None:
    """One reply per request, until there are no more."""
    opening = json.loads(requests.readline())
    limit_memory(TOKENIZER_MEMORY if "tokenizer" in opening else MEMORY)
    limit_computing(LOADING_SECONDS)
    answers = TextAnswers(opening)
    for line in requests:
        limit_computing(CPU_SECONDS)
        replies.write(json.dumps(answers.answer(line)) + "\n")
        replies.flush()


def _lower(kind: int, amount: int) -> None:
    import resource

    _, hard = resource.getrlimit(kind)
    allowed = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
    resource.setrlimit(kind, (allowed, hard))


def _in_short(reason: str) -> str:
    return ascii(reason[:LONGEST_REASON])[1:-1] or "no reason given"


def _raise_exception(message: object) -> NoReturn:
    raise Refused(str(message))


def _tojson(value: object, **options: Any) -> str:
    return json.dumps(value, **{"ensure_ascii": False, **options})


if __name__ == "__main__":
    main()
