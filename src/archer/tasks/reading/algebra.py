"""Whether two mathematical answers are equal, by math-verify.

It parses and computes whatever a model wrote, for as long as that takes, so it is imported when it
is first asked, which only a confined process does.
"""

from __future__ import annotations

from importlib import import_module


def math_equal(answer: str, right: str) -> bool:
    """Whether math-verify finds two answers equal; the right one goes first, by its rule.

    Its own time limits are off: the process that asks has a better one.
    """
    math_verify = import_module("math_verify")
    gold, target = (
        math_verify.parse(f"\\boxed{{{text}}}", parsing_timeout=None) for text in (right, answer)
    )
    return bool(math_verify.verify(gold, target, timeout_seconds=None))
