"""Tries out a tokenizer; a program of its own, started by `tokenizer_files` for unusual ones.

A tokenizer from outside can stop the process that loads or uses it, by a panic of the library or for
want of memory. Standard input is one JSON request with `source`, `triggers` and `growth`; the exit code
says whether the tokenizer may be used. Imports nothing of Archer.
"""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

CPU_SECONDS = 10
MEMORY = 3 << 30
LONGEST_REASON = 200
UNFIT = 3
LENGTH = 2000
SLACK = 256
SIGNS = (*"aA \n\t1_'.-(é", "e\u0301", *"中🙂\x00")
MIXED = (
    *("a ", " a", "aA1 ", "a\n", " \n", "1.", "'s ", "a'", "\r\n", "def f(x):\n    "),
    *("\u200d🙂", "ﷺ"),
)


def probes(triggers: list[str]) -> Iterator[str]:
    """Texts that patterns tend to stumble over, and those that the tokenizer itself looks for."""
    for unit in (*SIGNS, *MIXED, *triggers):
        if unit:
            run = unit * max(1, LENGTH // len(unit))
            yield run
            yield f"{run}!"
            yield f"x{run}\u2603x"
    yield "".join(chr(code) for code in range(0x20, 0x30000, 37) if not 0xD800 <= code < 0xE000)


def try_out(request: dict[str, Any]) -> str | None:
    """What is wrong with a tokenizer, as the end of a sentence; None if nothing was found."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(request["source"])
    tokenizer.no_truncation()
    tokenizer.no_padding()
    for text in probes(request["triggers"]):
        size = len(text.encode())
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        if len(ids) > request["growth"] * size + SLACK:
            return f"it makes {len(ids)} tokens of a text of {size} bytes"
        said = len(tokenizer.decode(ids, skip_special_tokens=False).encode("utf-8", "replace"))
        if said > request["growth"] * size + SLACK:
            return f"it makes {said} bytes of a text of {size}"
    for token, number in tokenizer.get_vocab().items():
        said = len(tokenizer.decode([number], skip_special_tokens=False).encode("utf-8", "replace"))
        if said > request["growth"] * (len(token.encode("utf-8", "replace")) + SLACK):
            return f"it makes {said} bytes of one token"
    tokenizer.decode([], skip_special_tokens=False)
    return None


def limit_resources() -> None:
    """At most so much computing and memory for this process; only Linux keeps both limits."""
    if sys.platform == "linux":
        import resource

        for kind, amount in ((resource.RLIMIT_CPU, CPU_SECONDS), (resource.RLIMIT_AS, MEMORY)):
            _, hard = resource.getrlimit(kind)
            allowed = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
            resource.setrlimit(kind, (allowed, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    limit_resources()
    request = json.load(sys.stdin)
    try:
        reason = try_out(request)
    except BaseException as error:  # noqa: BLE001 - a panic of the library is no Exception
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    if reason is not None:
        _stop(reason)


def _stop(reason: str) -> NoReturn:
    sys.stdout.write(ascii(reason[:LONGEST_REASON])[1:-1])
    sys.stdout.flush()
    sys.exit(UNFIT)


if __name__ == "__main__":
    main()
