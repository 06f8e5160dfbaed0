"""A zygote as the judge sees it: starts it, has it fork children, and hears of their ends."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from archer.judge import inside
from archer.judge.channel import Channel, wait_readable
from archer.judge.checks import NoSandbox
from archer.judge.inside import wire
from archer.judge.inside.folders import remove
from archer.judge.sandbox_plan import Plan


class ChildUnfit(Exception):
    """A child could not be confined, so no program may run in it: a fault of the harness."""


@dataclass(slots=True)
class Child:
    """The judge's ends of a child's descriptors; -1 stands for closed or absent.

    `folder` is the temporary one, where it has no `/tmp` of its own.
    `prepared` are the seconds that it took to get ready, None before. `exit_code` is None while the
    child lives. `cleared`: that folder has been removed.
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
    cleared: bool = False

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
    """A child-to-be, and its descriptors 0 to 3, to send to the zygote; /dev/null where it is not `piped`."""
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


MODULES: Final = (
    *("kernel", "limits", "confine", "wire", "folders", "remote", "program_side", "checker_side"),
    *("reader", "zygote"),
)
START_SECONDS: Final = 30.0
END_SECONDS: Final = 10.0
CLEAR_SECONDS: Final = 60.0
WARM_CHILDREN: Final = 2

LOADER: Final = """
import json, socket, sys, types
judge = socket.socket(fileno=int(sys.argv[1]))
size = int.from_bytes(judge.recv(4, socket.MSG_WAITALL), "big")
modules, plan = json.loads(judge.recv(size, socket.MSG_WAITALL))
package = sys.modules["inside"] = types.ModuleType("inside")
package.__path__ = []
for name, source in modules:
    module = types.ModuleType("inside." + name)
    module.__package__ = "inside"
    sys.modules[module.__name__] = module
    setattr(package, name, module)
    exec(compile(source, name + ".py", "exec"), module.__dict__)
del modules, source
sys.exit(sys.modules["inside.zygote"].main(judge, plan))
"""


class ZygoteLost(Exception):
    """The zygote is gone or does not do its work: a fault of the harness, not of a program."""


class ZygoteProcess:
    """One zygote and its children, for one check at a time; `modules` are further sources by name."""

    def __init__(self, plan: Plan, modules: Mapping[str, str] | None = None) -> None:
        self._plan = plan
        self._ordered: deque[Child] = deque()
        self._warm: deque[Child] = deque()
        self._alive: dict[int, Child] = {}
        self._uncleared: dict[int, Child] = {}
        self._pidfds: deque[int] = deque()
        self._incoming = bytearray()
        self._greeted = False
        self.control, theirs = socket.socketpair()
        with theirs:
            self._process = _start(interpreter(), theirs)
        sources = [[name, _source(name)] for name in MODULES] + [
            *map(list, (modules or {}).items())
        ]
        body = wire.dumps([sources, plan])
        with contextlib.suppress(BrokenPipeError):
            self.control.sendall(len(body).to_bytes(4, "big") + body)
        self.control.setblocking(False)

    @property
    def pid(self) -> int:
        """Process id of the zygote, or of the process that waits for it."""
        return self._process.pid

    def wait_until_started(self) -> None:
        """Waits until the zygote stands behind its layers, then forks; NoSandbox if one is refused."""
        try:
            self._wait(lambda: self._greeted, START_SECONDS)
        except ZygoteLost as error:
            raise NoSandbox(f"{error} {self._last_words()}".strip()) from None
        for _ in range(WARM_CHILDREN):
            self._order()

    def take(self) -> Child:
        """A confined child that has not seen any program; ZygoteLost if there is none to be had."""
        self.prepare()
        self._wait(lambda: bool(self._warm), START_SECONDS)
        child = self._warm.popleft()
        try:
            child.wait_until_ready(START_SECONDS)
        except ChildUnfit:
            self.release(child)
            raise
        return child

    def settle(self) -> None:
        """Waits until every child under way stands ready."""
        self._wait(lambda: not self._ordered, START_SECONDS)
        for child in self._warm:
            child.wait_until_ready(START_SECONDS)

    def empty(self) -> None:
        """Ends the children forked ahead, so that the next one is forked when it is needed."""
        self.settle()
        while self._warm:
            child = self._warm.popleft()
            self.release(child)
            self.wait_for_exit(child)

    def prepare(self) -> None:
        """Has a child forked if none is under way."""
        if not self._warm and not self._ordered:
            self._order()

    def release(self, child: Child) -> None:
        child.kill()
        child.close()

    def replenish(self) -> None:
        """Has the next child forked, in place of one that was released."""
        self.hear()
        if len(self._warm) + len(self._ordered) < WARM_CHILDREN:
            self._order()

    def wait_for_exit(self, child: Child) -> int:
        """The exit code of a child that is about to end (negative: the signal that ended it)."""
        self._wait(lambda: child.exit_code is not None, END_SECONDS)
        assert child.exit_code is not None
        return child.exit_code

    def wait_until_cleared(self, child: Child) -> None:
        """Until nothing of a released child is on disk, where it had a folder there."""
        self._wait(lambda: child.folder is None or child.cleared, CLEAR_SECONDS)

    def hear(self) -> None:
        """Takes in what the zygote has reported. ZygoteLost if it is gone."""
        while True:
            try:
                chunk, pidfds, _, _ = socket.recv_fds(self.control, 1 << 16, 16)
            except BlockingIOError:
                return
            except OSError:
                chunk, pidfds = b"", []
            if not chunk:
                raise ZygoteLost("The process that starts sandboxes has ended.")
            self._pidfds.extend(pidfds)
            self._incoming += chunk
            self._digest()

    def close(self) -> None:
        """Ends the zygote and with it every child; nothing is left running or on disk."""
        self.control.close()
        for child in (*self._ordered, *self._warm, *self._alive.values()):
            child.kill()
            child.close()
        for pidfd in self._pidfds:
            os.close(pidfd)
        self._pidfds.clear()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()
        if self._plan["base"] is not None:  # still there if the zygote did not end by itself
            with contextlib.suppress(OSError):
                remove(Path(self._plan["base"]))

    def _order(self) -> None:
        child, theirs = open_child(piped=self._plan["role"] == "program")
        try:
            socket.send_fds(self.control, [wire.frame(wire.FORK, b"")], theirs)
        except OSError as error:
            child.close()
            raise ZygoteLost(
                f"The process that starts sandboxes takes no order: {error}."
            ) from None
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        self._ordered.append(child)

    def _digest(self) -> None:
        while len(self._incoming) >= wire.HEADER.size:
            length, kind = wire.HEADER.unpack_from(self._incoming)
            end = wire.HEADER.size + length
            if len(self._incoming) < end:
                return
            data = wire.loads(bytes(self._incoming[wire.HEADER.size : end]))
            del self._incoming[:end]
            self._act(kind, data)

    def _act(self, kind: int, data: Any) -> None:
        if kind == wire.READY:
            self._greeted = True
        elif kind == wire.FORKED:
            child = self._ordered.popleft()
            child.pid = data["pid"]
            child.folder = Path(data["folder"]) if data["folder"] is not None else None
            child.pidfd = self._pidfds.popleft() if self._pidfds else -1
            self._alive[child.pid] = child
            self._warm.append(child)
        elif kind == wire.EXITED:
            child = self._alive.pop(data["pid"])
            child.exit_code = data["code"]
            if child.folder is not None:
                self._uncleared[data["pid"]] = child
        elif kind == wire.CLEARED:
            self._uncleared.pop(data["pid"]).cleared = True
        else:
            raise ZygoteLost(f"The process that starts sandboxes reports: {data}.")

    def _wait(self, arrived: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not arrived():
            left = deadline - time.monotonic()
            if left <= 0:
                raise ZygoteLost(f"The process that starts sandboxes is silent for {seconds:g} s.")
            wait_readable(self.control.fileno(), left)
            self.hear()

    def _last_words(self) -> str:
        """What the interpreter wrote before it ended, if it has ended."""
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return ""
        assert self._process.stderr is not None
        return self._process.stderr.read().decode(errors="replace").strip()[-500:]


def interpreter() -> list[str]:
    """The command for a fresh interpreter: no site, no user folder, no current folder, UTF-8."""
    return [str(Path(sys.executable).resolve()), "-P", "-s", "-S", "-B", "-X", "utf8", "-c", LOADER]


def _start(command: list[str], theirs: socket.socket) -> "subprocess.Popen[bytes]":
    """Starts a command with one socket and nothing else of this process, not its environment."""
    return subprocess.Popen(
        [*command, str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=[theirs.fileno()],
        env={"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"},
        cwd="/",
        start_new_session=True,
    )


def _source(name: str) -> str:
    return (Path(inside.__file__).parent / f"{name}.py").read_text(encoding="utf-8")
