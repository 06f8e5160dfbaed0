"""The process that math-verify runs in: `python -m archer.tasks.algebra_child`.

Reads one question per line, {"right": ..., "answer": ...}, and answers `equal` or `different`.
"""

from __future__ import annotations

import json
import resource
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

MEMORY_BYTES = 4 << 30


def main() -> None:
    """Answers until there are no more questions."""
    with suppress(ValueError, OSError):  # some systems have no such limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    math_verify = import_module("math_verify")  # after the limit, and in this process only

    _say("ready")
    for line in sys.stdin:
        question = json.loads(line)
        equal = same(math_verify, question["right"], question["answer"])
        _say("equal" if equal else "different")


def same(math_verify: Any, right: str, answer: str) -> bool:
    """Whether math-verify finds two answers equal; the right one goes first, by its rule.

    Its own time limits are off: the process that asks has a better one.
    """
    gold, target = (
        math_verify.parse(f"\\boxed{{{text}}}", parsing_timeout=None) for text in (right, answer)
    )
    return bool(math_verify.verify(gold, target, timeout_seconds=None))


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
