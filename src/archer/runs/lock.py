"""One writer per run folder, by a lock that the kernel drops when its holder dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from archer.files import OWN
from archer.runs.faults import DiskFault, RunBusy

NAME = "lock"


class Lock:
    """Held from construction until `release`, or until the process is gone."""

    def __init__(self, folder: Path) -> None:
        path = folder / NAME
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | OWN, 0o666)
        except OSError as error:
            raise DiskFault.of(path, error) from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._handle, 32).decode("ascii", "replace").strip()
            os.close(self._handle)
            raise RunBusy(
                f"{folder} is being written by another run (process {holder or 'unknown'}). Wait for "
                "it, or choose another folder."
            ) from error
        try:
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)
        except OSError:
            pass  # the number is a courtesy; the lock holds without it

    def release(self) -> None:
        os.close(self._handle)
