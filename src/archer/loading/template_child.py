"""Renders chat templates; a program of its own, started by `chat_template` for each batch.

A template is a program from outside. Jinja's sandbox keeps it from touching anything but its input,
but not from computing forever or filling the memory: that takes limits on a process. Standard input
is one JSON request, standard output one JSON list of texts. Imports nothing of Archer.
"""

import json
import sys
from typing import Any, NoReturn

from jinja2.sandbox import ImmutableSandboxedEnvironment

CPU_SECONDS = 2
MEMORY = 512 << 20
LONGEST_OUTPUT = 8 << 20
LONGEST_REASON = 300
FAILED = 1
REFUSED = 3
"""Exit codes: the template is at fault; the template calls the messages unfit."""


class Refused(Exception):
    """The template called `raise_exception`."""


def render(request: dict[str, Any]) -> list[str]:
    """The text of each conversation in `request`: `source`, `names` and `conversations`."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    template = environment.from_string(request["source"])
    fixed = {**request["names"], "add_generation_prompt": True, "tools": None, "documents": None}
    texts = [template.render(messages=each, **fixed) for each in request["conversations"]]
    if max(map(len, texts), default=0) > LONGEST_OUTPUT:
        raise ValueError(f"the text is longer than {LONGEST_OUTPUT} characters")
    return texts


def limit_resources() -> None:
    """At most so much computing and memory for this process; only Linux keeps both limits."""
    if sys.platform == "linux":
        import resource

        for kind, amount in ((resource.RLIMIT_CPU, CPU_SECONDS), (resource.RLIMIT_AS, MEMORY)):
            _, hard = resource.getrlimit(kind)
            allowed = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
            resource.setrlimit(kind, (allowed, hard))


def main() -> None:
    limit_resources()
    try:
        reply = json.dumps(render(json.load(sys.stdin)))
    except Refused as error:
        _stop(REFUSED, str(error))
    except Exception as error:  # noqa: BLE001 - whatever a template does, the caller gets one line
        _stop(FAILED, f"{type(error).__name__}: {error}")
    sys.stdout.write(reply)


def _stop(code: int, reason: str) -> NoReturn:
    sys.stderr.write(ascii(reason[:LONGEST_REASON])[1:-1])
    sys.exit(code)


def _raise_exception(message: object) -> NoReturn:
    raise Refused(str(message))


def _tojson(value: object, **options: Any) -> str:
    return json.dumps(value, **{"ensure_ascii": False, **options})


if __name__ == "__main__":
    main()
