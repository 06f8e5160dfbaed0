"""The zygote: a small interpreter that forks one confined, single-use child per program or test.

It is started afresh, never sees a test, and never runs a line of a program itself. It takes orders
from the judge over one socket: fork (with the child's descriptors attached), and reports exits. When
the judge hangs up, in whatever way it ended, the zygote removes what it has made and ends.
"""

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from . import checker_side, program_side, reader, wire
from .confine import Confinement
from .folders import Folders, remove

ROLES: dict[str, ModuleType] = {"program": program_side, "test": checker_side, "reader": reader}
CHILD_DESCRIPTORS = 4
HIGHEST_DESCRIPTOR = 1 << 16


def main(connection: socket.socket, plan: dict[str, Any]) -> int:
    """Builds the surroundings, then serves until the judge hangs up; in a child: runs the child."""
    confinement = Confinement(plan)
    try:
        if not confinement.enter():
            connection.detach()
            return _wait_for_zygote()
        sys.meta_path.append(Packages(confinement.packages(), plan["versions"]))
        for name in plan["preload"]:
            importlib.import_module(name)
        homes = Folders(plan["base"], plan["uid"]) if plan["base"] is not None else None
    except (OSError, ImportError) as error:
        connection.sendall(wire.frame(wire.FAILED, wire.dumps(str(error))))
        return 1
    gc.collect()
    gc.freeze()
    return Zygote(connection, plan["role"], confinement, homes).serve()


def _wait_for_zygote() -> int:
    os.closerange(3, HIGHEST_DESCRIPTOR)
    os.wait()
    return 0


class Packages:
    """Finds the packages that programs may import, without looking into the folder above them.

    `versions` are those of distributions that a package asks for.
    """

    def __init__(self, folders: dict[str, str], versions: dict[str, str]) -> None:
        self._folders = folders
        self._versions = versions

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Where a package is; part of Python's import protocol."""
        folder = self._folders.get(name)
        if folder is None:
            return None
        return spec_from_file_location(
            name, f"{folder}/__init__.py", submodule_search_locations=[folder]
        )

    def find_distributions(self, context: Any) -> list[Any]:
        """What is known about a distribution; part of the protocol of `importlib.metadata`."""
        version = self._versions.get(context.name)
        return [] if version is None else [_distribution(context.name, version)]


def _distribution(name: str, version: str) -> Any:
    from importlib.metadata import Distribution

    class Known(Distribution):
        """A distribution of which nothing but the version can be read."""

        def read_text(self, filename: str) -> str | None:
            metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            return metadata if filename == "METADATA" else None

        def locate_file(self, path: Any) -> Any:
            return path

    return Known()


class Zygote:
    """Forks and reaps. Single-threaded; the exit of a child wakes it through a pipe."""

    def __init__(
        self,
        connection: socket.socket,
        role: str,
        confinement: Confinement,
        homes: Folders | None,
    ) -> None:
        self._connection = connection
        self._role = ROLES[role]
        self._confinement = confinement
        self._homes = homes
        self._alive: dict[int, str | None] = {}
        """The folder of each child, by process id."""
        self._wake, write_end = os.pipe()
        for end in (self._wake, write_end):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> int:
        """Serves until the judge hangs up; returns in every child, with that child's exit code."""
        try:
            self._report(wire.READY, os.getpid())
            child = self._follow_orders()
        except (EOFError, ConnectionError):
            self._clear_away()
            os._exit(0)
        return child()

    def _follow_orders(self) -> Callable[[], int]:
        """The loop; it ends in children only."""
        poller = select.poll()
        poller.register(self._connection, select.POLLIN)
        poller.register(self._wake, select.POLLIN)
        while True:
            for descriptor, _ in poller.poll():
                if descriptor == self._wake:
                    os.read(self._wake, 4096)
                    self._reap()
                elif (child := self._fork()) is not None:
                    return child

    def _fork(self) -> Callable[[], int] | None:
        """Carries out one order; None in the zygote, the child's life in the child."""
        header, descriptors, _, _ = socket.recv_fds(
            self._connection, wire.HEADER.size, CHILD_DESCRIPTORS
        )
        if len(header) < wire.HEADER.size:
            raise EOFError
        try:
            folder = self._homes.make() if self._homes is not None else None
            pid = self._confinement.fork()
        except OSError as error:
            self._report(wire.FAILED, str(error))
            return None
        if pid == 0:
            return lambda: self._become_child(descriptors, folder)
        self._alive[pid] = folder
        self._announce(pid, folder)
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def _clear_away(self) -> None:
        """Removes the folders, once no child is left that could put something into them."""
        if self._homes is None:
            return
        for pid in self._alive:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        with contextlib.suppress(OSError):
            self._homes.close()

    def _announce(self, pid: int, folder: str | None) -> None:
        message = wire.frame(wire.FORKED, wire.dumps({"pid": pid, "folder": folder}))
        if sys.platform != "linux":
            self._connection.sendall(message)
            return
        pidfd = os.pidfd_open(pid)
        socket.send_fds(self._connection, [message], [pidfd])
        os.close(pidfd)

    def _report(self, kind: int, data: Any) -> None:
        self._connection.sendall(wire.frame(kind, wire.dumps(data)))

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            folder = self._alive.pop(pid, None)
            self._report(wire.EXITED, {"pid": pid, "code": os.waitstatus_to_exitcode(status)})
            if folder is not None:
                with contextlib.suppress(OSError):
                    remove(Path(folder))
                self._report(wire.CLEARED, {"pid": pid})

    def _become_child(self, descriptors: list[int], folder: str | None) -> int:
        """Takes the four descriptors as 0 to 3, drops everything else, and confines itself.

        Reports how long that took: the CPU limit counts it too.
        """
        started = time.monotonic()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._connection.detach()
        for target, descriptor in enumerate(descriptors):
            os.dup2(descriptor, target, inheritable=False)
        os.closerange(CHILD_DESCRIPTORS, HIGHEST_DESCRIPTOR)
        judge = socket.socket(fileno=CHILD_DESCRIPTORS - 1)
        try:
            self._confinement.confine_child(folder)
        except OSError as error:
            judge.sendall(wire.frame(wire.FAILED, wire.dumps(str(error))))
            os._exit(1)
        self._role.rehearse()
        judge.sendall(wire.frame(wire.READY, wire.dumps(time.monotonic() - started)))
        try:
            return int(self._role.serve(wire.Connection(judge)))
        except EOFError:
            os._exit(0)
