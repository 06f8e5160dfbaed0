"""Whether two mathematical answers are equal, by math-verify in a confined process.

The text comes from a model and can be made to keep a computer algebra system busy for ever or to
fill the memory, so every question has a time limit and the process can be replaced.
"""

from __future__ import annotations

import time
from importlib.metadata import version
from importlib.util import find_spec

from archer.errors import BadRequest
from archer.judge import Verdict
from archer.judge.checks import MIB
from archer.judge.reader import PRELOAD, Readers, Reading, Unreadable
from archer.tasks.reader import sources

SECONDS = 10.0
MEMORY_BYTES = 1024 * MIB
PACKAGES = ("math_verify", "latex2sympy2_extended", "sympy", "mpmath", "antlr4")
"""math-verify and all that it needs."""
ASKED_FOR = "antlr4-python3-runtime"
"""The distribution whose version decides which parser it takes."""


def math_verify_version() -> str:
    """The installed version; refused with a remedy when there is none."""
    if find_spec("math_verify") is None:
        raise BadRequest(
            "MATH-500 is graded by math-verify, which is not installed; "
            "install it with: pip install 'archer-dlm[eval]'"
        )
    return version("math-verify")


class Algebra(Readers):
    """A reader that has math-verify loaded ahead."""

    def __init__(self, seconds: float = SECONDS) -> None:
        math_verify_version()
        reading = Reading(
            modules=sources(),
            packages=PACKAGES,
            preload=(*PRELOAD, "math_verify"),
            versions={ASKED_FOR: version(ASKED_FOR)},
            seconds=seconds,
            memory_bytes=MEMORY_BYTES,
        )
        super().__init__(reading, count=1)

    def compare(self, answer: str, right: str) -> Verdict:
        """Pass if both are equal. A question that takes too long is asked once more."""
        began = time.monotonic()
        try:
            equal = self.read("math_equal", answer, right=right)
        except Unreadable as fault:
            found = fault.verdict
        else:
            reason = f"The answer is {answer[:100]!r}, but {right!r} is right."
            found = Verdict("pass") if equal else Verdict("fail", reason)
        return Verdict(found.outcome, found.reason, time.monotonic() - began)
