"""A single-use child of a zygote, as the judge holds it."""

import contextlib
import os
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from archer.judge.channel import Channel
from archer.judge.inside import wire
from archer.judge.watch import wait_readable


class ChildUnfit(Exception):
    """A child could not be confined, so no program may run in it: a fault of the harness."""


@dataclass(slots=True)
class Child:
    """The judge's ends of a child's descriptors; -1 stands for closed or absent.

    `folder` is the temporary one, where it has no `/tmp` of its own.
    `prepared` are the seconds that it took to get ready, None before. `exit_code` is None while the
    child lives.
    """

    channel: Channel
    stdin: int
    stdout: int
    stderr: int
    folder: Path | None = None
    pid: int = 0
    pidfd: int = -1
    prepared: float | None = None
    exit_code: int | None = None

    def wait_until_ready(self, seconds: float) -> None:
        """Waits until the child reports that every layer stands."""
        if self.prepared is not None:
            return
        wait_readable(self.channel.connection.fileno(), seconds)
        for kind, body in self.channel.frames():
            if kind != wire.READY:
                raise ChildUnfit(f"A sandbox could not be confined: {wire.loads(body)}.")
            self.prepared = wire.loads(body)
            return
        raise ChildUnfit("A sandbox ended, or hung, before it was confined.")

    def lived(self, seconds: float) -> float:
        """How long it was at work: getting ready, and the seconds since it got its order."""
        return (self.prepared or 0.0) + seconds

    def kill(self) -> None:
        """SIGKILL, which in a process namespace takes everything along."""
        with contextlib.suppress(ProcessLookupError):
            if self.pidfd >= 0:
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            elif sys.platform != "linux" and self.pid and self.exit_code is None:
                os.kill(self.pid, signal.SIGKILL)

    def close_stdin(self) -> None:
        """Lets the child read the end of its input."""
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def close(self) -> None:
        self.channel.connection.close()
        self.close_stdin()
        for descriptor in (self.stdout, self.stderr, self.pidfd):
            if descriptor >= 0:
                os.close(descriptor)
        self.stdout = self.stderr = self.pidfd = -1


def open_child(piped: bool) -> tuple[Child, list[int]]:
    """A child-to-be, and the four descriptors (0 to 3) to send to the zygote and then close.

    Without pipes, the child's standard streams are /dev/null.
    """
    ours, theirs = socket.socketpair()
    if piped:
        (read_in, write_in), (read_out, write_out), (read_err, write_err) = (
            os.pipe(),
            os.pipe(),
            os.pipe(),
        )
        streams = [read_in, write_out, write_err]
    else:
        write_in = read_out = read_err = -1
        streams = [os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC) for _ in range(3)]
    child = Child(Channel(ours), write_in, read_out, read_err)
    return child, [*streams, theirs.detach()]
