"""Whether two mathematical answers are equal, by math-verify in a process of its own.

The text comes from a model and can be made to keep a computer algebra system busy for ever or to
fill the memory, so every question has a time limit and the process can be replaced.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from importlib.metadata import version
from importlib.util import find_spec
from queue import Empty, SimpleQueue
from threading import Thread
from types import TracebackType
from typing import IO

from archer.errors import BadRequest
from archer.judge import Verdict

SECONDS = 10.0
START_SECONDS = 120.0
ATTEMPTS = 2
COMMAND = (sys.executable, "-m", "archer.tasks.algebra_child")


def math_verify_version() -> str:
    """The installed version; refused with a remedy when there is none."""
    if find_spec("math_verify") is None:
        raise BadRequest(
            "MATH-500 is graded by math-verify, which is not installed; "
            "install it with: pip install 'archer-dlm[eval]'"
        )
    return version("math-verify")


class Algebra:
    """Asks the process; starts it when needed, and again after it had to be ended."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._child: _Child | None = None

    def __enter__(self) -> Algebra:
        math_verify_version()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def compare(self, answer: str, right: str) -> Verdict:
        """Pass if both are equal. A question that takes too long is asked once more."""
        verdict = Verdict("harness_error", "The comparison was never made.")
        for _ in range(ATTEMPTS):
            began = time.monotonic()
            verdict = self._ask(answer, right)
            verdict = Verdict(verdict.outcome, verdict.reason, time.monotonic() - began)
            if verdict.outcome in ("pass", "fail"):
                break
        return verdict

    def _ask(self, answer: str, right: str) -> Verdict:
        if self._child is None:
            self._child = _Child()
            if self._child.hear(START_SECONDS) != "ready":
                self._end()
                return Verdict("harness_error", "The process with math-verify did not start.")
        try:
            said = self._child.ask({"right": right, "answer": answer}, self._seconds)
        except TimeoutError:
            self._end()
            return Verdict("timeout", f"The comparison took more than {self._seconds:g} s.")
        if said not in ("equal", "different"):
            self._end()
            return Verdict("crash", "The comparison took more memory than it may.")
        if said == "equal":
            return Verdict("pass")
        return Verdict("fail", f"The answer is {answer[:100]!r}, but {right!r} is right.")

    def _end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None


class _Child:
    """The process: one line in, one line out. A thread reads, so that waiting can end."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        self._lines: SimpleQueue[str] = SimpleQueue()
        assert self._process.stdout is not None
        self._reader = Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            self._lines.put(line.strip())
        self._lines.put("ended")

    def ask(self, question: dict[str, str], seconds: float) -> str:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except OSError:
            return "ended"
        return self.hear(seconds)

    def hear(self, seconds: float) -> str:
        """The next line; TimeoutError if none comes."""
        try:
            return self._lines.get(timeout=seconds)
        except Empty:
            raise TimeoutError from None

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            try:
                stream.close()
            except OSError:
                continue
