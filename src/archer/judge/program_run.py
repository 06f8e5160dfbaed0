"""What every run of a program has in common: its output, its folder, its end, the clock."""

import contextlib
import os
import secrets
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from archer.judge.channel import Drain, Watch
from archer.judge.checks import Limits, Outcome, Verdict
from archer.judge.inside import wire
from archer.judge.sandbox_plan import TEMPORARY_BYTES, TEMPORARY_FILES
from archer.judge.zygote_process import Child, ZygoteProcess
from archer.machine.signals import signal_name

LOOK_SECONDS: Final = 0.1
LONGEST_WAIT: Final = 3600.0
LAST_READS: Final = 8
TICK: Final = 0.01  # the longest that a kernel charges at once
OUT_OF_CPU: Final = (-signal.SIGKILL, -signal.SIGXCPU)


class VerdictReached(Exception):
    """Raised inside a run as soon as the verdict stands."""

    def __init__(self, outcome: Outcome, reason: str = "", broken: bool = False) -> None:
        super().__init__(reason)
        self.verdict = Verdict(outcome, reason, integrity="violated" if broken else "isolated")


@dataclass(frozen=True, slots=True)
class Bench:
    """The two zygotes that a check needs: one for programs, one for tests."""

    programs: ZygoteProcess
    tests: ZygoteProcess

    def close(self) -> None:
        self.programs.close()
        self.tests.close()


class ProgramRun:
    """A program in a child, with its output drained and its folder watched."""

    def __init__(self, zygote: ZygoteProcess, limits: Limits, keep: int) -> None:
        self.zygote = zygote
        self.limits = limits
        self.child: Child = zygote.take()
        self.watch = Watch(limits.wall_seconds)
        self._next_look = LOOK_SECONDS
        self.stdout = Drain(self.child.stdout, keep)
        self.stderr = Drain(self.child.stderr, limits.output_bytes)

    def observe(self) -> None:
        """Starts to read the program's output and to listen to its zygote."""
        self.watch.readable(self.stdout.descriptor, lambda: self._drain(self.stdout))
        self.watch.readable(self.stderr.descriptor, lambda: self._drain(self.stderr))
        self.watch.readable(self.zygote.control.fileno(), self.zygote.hear)

    @property
    def flooded(self) -> bool:
        return self.stdout.flooded or self.stderr.flooded

    def step(self) -> bool:
        """Waits for something to happen; False when the time is over."""
        if self.child.folder is None:
            return self.watch.wait(LONGEST_WAIT)
        in_time = self.watch.wait(LOOK_SECONDS)
        if self.watch.seconds() > self._next_look:
            self._next_look = self.watch.seconds() + LOOK_SECONDS
            self._look(self.child.folder)
        return in_time

    def _look(self, folder: Path) -> None:
        """Checks what the kernel does not limit in this tier."""
        if overfull(folder):
            raise VerdictReached("fail", "The program wrote more temporary files than it may.")

    def ended(self) -> VerdictReached:
        """Makes sure that the program has ended, and gives the verdict on that."""
        self.child.kill()
        code = self.zygote.wait_for_exit(self.child)
        lived = self.child.lived(self.watch.seconds())
        return ended_early(code, self.limits, "The program", lived)

    def close(self) -> float:
        """Ends the program, reads what is under way, and waits until nothing of it is left on disk.

        Returns the seconds of that wait.  While a zygote removes folders it does nothing else, so they are
        time of the program that made them and of no other.  `zygote.replenish` sees to a successor, later.
        """
        self.child.kill()
        for drain in (self.stdout, self.stderr):
            for _ in range(LAST_READS):
                if drain.ended or not drain.read():
                    break
        self.zygote.release(self.child)
        waiting_since = self.watch.seconds()
        self.zygote.wait_until_cleared(self.child)
        return self.watch.seconds() - waiting_since

    def _drain(self, drain: Drain) -> None:
        drain.read()
        if drain.ended:
            self.watch.forget(drain.descriptor)


def send_program(child: Child, order: bytes) -> None:
    """Has a child load a program; the order is encoded already."""
    try:
        child.channel.send(wire.LOAD, order)
    except wire.WireError as error:
        raise VerdictReached("fail", f"The program is {error}.") from None


def ended_early(code: int, limits: Limits, what: str, lived: float) -> VerdictReached:
    """The verdict on a program whose process ended by itself, `lived` seconds after its start.

    The kernel enforces the CPU limit by ticks, and whoever asks how much was used gets another
    measure; on a busy machine the two differ widely. But no process is charged more ticks than pass
    on all cores together. So a kill before that is not the limit's, and one after it is taken for
    the limit's, also where a program killed itself or hung up so late.
    """
    most = (lived + TICK) * (os.cpu_count() or 1)
    if code in OUT_OF_CPU and most >= limits.cpu_seconds:
        return VerdictReached("timeout", f"{what} used up {limits.cpu_seconds:g} s of CPU time.")
    if code < 0:
        return VerdictReached("crash", f"{what} was ended by {signal_name(-code)}.")
    return VerdictReached("crash", f"{what} ended with exit code {code} before it had answered.")


BLOCK: Final = 512  # bytes in the unit of st_blocks
PREFIX: Final = "archer-judge-"


def new_base() -> str:
    """Where a zygote can make the folder for those of its children; there is nothing yet."""
    return str(Path(tempfile.gettempdir()).resolve() / f"{PREFIX}{secrets.token_hex(8)}")


def overfull(folder: Path) -> bool:
    """Whether a folder holds more than a program may write; what cannot be read counts as too much."""
    size = 0
    try:
        for files, entry in enumerate(_tree(folder), start=1):
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                size += max(status.st_size, status.st_blocks * BLOCK)
            if files > TEMPORARY_FILES or size > TEMPORARY_BYTES:
                return True
    except OSError:
        return True
    return False


def _tree(top: Path) -> Iterator[os.DirEntry[str]]:
    """Everything in a folder and below; links are not followed. OSError where it cannot be read."""
    waiting = [str(top)]
    while waiting:
        with contextlib.suppress(FileNotFoundError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
