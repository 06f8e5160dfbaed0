"""A confined process that renders or encodes for many requests; see `text_child`, the program that it runs.

It is started by the first request, asked by one thread at a time, replaced when it is worn out or dead, and
ended with its owner or with the interpreter.  A request that kills it, or that gets no answer in time, fails
alone: the next one gets a new process.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import weakref
from typing import IO, Any

from archer.loading.text import text_child

WALL_SECONDS = 30.0
"""Far beyond the limit on computing, so that a busy machine is not mistaken for a bad model."""
LEAVING_SECONDS = 1.0
"""How long a process that has closed its output may take to end."""

Child = subprocess.Popen[bytes]


class NoAnswer(Exception):
    """The process ended, or was ended, before it answered."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.killed = code < 0
        """By a limit or by the clock; otherwise it failed by itself."""


class ChildProcess:
    """Answers requests by `text_child`, which is first sent an opening; safe to use from several threads."""

    def __init__(self, opening: object) -> None:
        self._opening = _line(opening)
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._child: Child | None = None
        self._end: weakref.finalize[..., ChildProcess] | None = None

    @property
    def pid(self) -> int | None:
        """Of the process that waits for requests; None while there is none."""
        return None if self._child is None else self._child.pid

    def ask(self, request: object) -> dict[str, Any]:
        """The reply to one request."""
        if self._owner != os.getpid():
            self._forget()
        with self._lock:
            try:
                reply = self._exchange(_line(request))
            except BaseException:
                self._stop()
                raise
            if reply["last"]:
                self._stop()
            return reply

    def close(self) -> None:
        """End the process; the next request starts another."""
        with self._lock:
            self._stop()

    def _exchange(self, request: bytes) -> dict[str, Any]:
        child, pipes, fresh = self._running()
        clock = threading.Timer(WALL_SECONDS, child.kill)
        clock.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                pipes[0].write(self._opening + request if fresh else request)
                pipes[0].flush()
            answer = pipes[1].readline()
        finally:
            clock.cancel()
        if not answer.endswith(b"\n"):
            with contextlib.suppress(subprocess.TimeoutExpired):
                raise NoAnswer(child.wait(LEAVING_SECONDS))
            raise NoAnswer(-1)
        reply: dict[str, Any] = json.loads(answer)
        return reply

    def _running(self) -> tuple[Child, tuple[IO[bytes], IO[bytes]], bool]:
        """A process that lives, its input and output, and whether it is new."""
        fresh = self._child is None or self._child.poll() is not None
        if fresh:
            self._stop()
            command = [sys.executable, "-P", text_child.__file__]
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._end = weakref.finalize(self, _ended, self._child, self._owner)
        child = self._child
        assert child is not None
        assert child.stdin is not None
        assert child.stdout is not None
        return child, (child.stdin, child.stdout), fresh

    def _stop(self) -> None:
        if self._end is not None:
            self._end()
        self._child = self._end = None

    def _forget(self) -> None:
        """In a process that was forked off: leave the process to the one that started it."""
        self._lock, self._owner = threading.Lock(), os.getpid()
        self._stop()


def _ended(child: Child, owner: int) -> None:
    """No process and no descriptor is left; a process of another owner stays."""
    if os.getpid() == owner:
        child.kill()
        child.wait()
    else:
        child.returncode = 0
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _line(value: object) -> bytes:
    return json.dumps(value).encode("ascii") + b"\n"
