"""Renders chat templates; a program of its own, started by `chat_template` and kept for many requests.

A template is a program from outside. Jinja's sandbox keeps it from touching anything but its input,
but not from computing forever or filling the memory: that takes limits on a process. Standard input
is JSON by lines: first the template (`source`, `names`, `variables`), then one list of conversations
per request. Standard output answers each with one line: `texts`, or why there are none (`refused`,
`failed`).
Imports nothing of Archer.
"""

import json
import math
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

from jinja2.sandbox import ImmutableSandboxedEnvironment

CPU_SECONDS = 2
"""For each request."""
MEMORY = 512 << 20
LONGEST_OUTPUT = 8 << 20
LONGEST_REASON = 300
MOST_REQUESTS = 500
"""A process is renewed after this many requests, whatever they may have left behind in it."""

Conversation = list[dict[str, str]]
Render = Callable[[Conversation], str]


class Refused(Exception):
    """The template called `raise_exception`."""


class TemplateAnswers:
    """What this program says to each request; the template is compiled once."""

    def __init__(self, template: dict[str, Any]) -> None:
        self._template = template
        self._render: Render | None = None
        self._count = 0

    def answer(self, request: str) -> dict[str, Any]:
        """The texts, or the fault in one line; `last` asks for another process from now on."""
        self._count += 1
        worn = self._count >= MOST_REQUESTS or no_computing_left()
        try:
            return {"texts": self._texts(json.loads(request)), "last": worn}
        except Refused as error:
            return {"refused": _in_short(str(error)), "last": worn}
        except MemoryError as error:
            return {"failed": _in_short(f"MemoryError: {error}"), "last": True}
        except Exception as error:  # noqa: BLE001 - whatever a template does, the caller gets one line
            return {"failed": _in_short(f"{type(error).__name__}: {error}"), "last": worn}

    def _texts(self, conversations: list[Conversation]) -> list[str]:
        if self._render is None:
            self._render = compiled(**self._template)
        texts = [self._render(each) for each in conversations]
        if max(map(len, texts), default=0) > LONGEST_OUTPUT:
            raise ValueError(f"the text is longer than {LONGEST_OUTPUT} characters")
        return texts


def compiled(source: str, names: dict[str, str], variables: dict[str, Any] | None = None) -> Render:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    template = environment.from_string(source)
    usual = {"add_generation_prompt": True, "tools": None, "documents": None}
    fixed = {**(variables or {}), **names, **usual}
    return lambda messages: template.render(messages=messages, **fixed)


def limit_memory() -> None:
    """At most so much memory for this process; only Linux keeps the limit."""
    if sys.platform == "linux":
        import resource

        _lower(resource.RLIMIT_AS, MEMORY)


def limit_computing() -> None:
    """So much computing for the next request: the limit of a process counts from its start."""
    if sys.platform == "linux":
        import resource

        _lower(resource.RLIMIT_CPU, math.ceil(time.process_time()) + CPU_SECONDS)


def no_computing_left() -> bool:
    """The limit that this process was started with will not bear another request."""
    if sys.platform != "linux":
        return False
    import resource

    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    return hard != resource.RLIM_INFINITY and time.process_time() + 2 * CPU_SECONDS > hard


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the program that started this one
    limit_memory()
    serve(sys.stdin, sys.stdout)


def serve(requests: TextIO, replies: TextIO) -> None:
    """One reply per request, until there are no more."""
    answers = TemplateAnswers(json.loads(requests.readline()))
    for line in requests:
        limit_computing()
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
