"""The record of a run: a file of JSON lines that only ever grows.

A record is acknowledged when `append` returns: it then is on the disk, by one write and one fsync. A write
that fails half-way is taken back. What a kill or a power cut leaves behind the last line break was never
acknowledged; it is moved to a side file when the journal is opened again.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from archer.runs.faults import BadRun, DiskFault
from archer.runs.files import sync_folder

Record = dict[str, Any]

log = logging.getLogger(__name__)


def read_records(path: Path) -> list[Record]:
    """All acknowledged records; what follows the last line break is passed over."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BadRun(f"{path} cannot be read ({error.strerror}).") from error
    return list(_records(path, content[: content.rfind(b"\n") + 1]))


class Journal:
    """The one writer of a journal. Whoever opens it holds the lock of the run folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._guard = threading.Lock()
        self._broken = False
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                sync_folder(path.parent)
                self._size = _without_torn_tail(path, self._handle)
            except BaseException:
                os.close(self._handle)
                raise
        except OSError as error:
            raise DiskFault.of(path, error) from error

    def append(self, record: Mapping[str, Any]) -> None:
        """Record this durably, or raise DiskFault with the journal as it was. Safe between threads."""
        line = (json.dumps(record, allow_nan=False, separators=(",", ":")) + "\n").encode()
        with self._guard:
            if self._broken:
                raise DiskFault(f"{self._path} had a failed write; nothing more is recorded in it.")
            try:
                written = os.write(self._handle, line)
                if written != len(line):
                    raise OSError(28, "No space left on device")
                os.fsync(self._handle)
            except OSError as error:
                self._broken = True
                self._take_back()
                raise DiskFault.of(self._path, error) from error
            self._size += len(line)

    def close(self) -> None:
        os.close(self._handle)

    def _take_back(self) -> None:
        """Where even this fails, the tail is found to be torn when the journal is opened again."""
        try:
            os.ftruncate(self._handle, self._size)
            os.fsync(self._handle)
        except OSError as error:
            log.warning("%s: a failed write could not be taken back (%s).", self._path, error)


def _without_torn_tail(path: Path, handle: int) -> int:
    """Move what was never acknowledged to a side file; the size of what remains."""
    content = path.read_bytes()
    size = content.rfind(b"\n") + 1
    torn = content[size:]
    if torn:
        aside = path.with_name(f"{path.name}.torn")
        with aside.open("ab") as file:
            file.write(torn + b"\n")
        os.ftruncate(handle, size)
        os.fsync(handle)
        log.warning(
            "%s ended in an unfinished record of %d bytes; it was moved to %s and is done again.",
            path,
            len(torn),
            aside.name,
        )
    return size


def _records(path: Path, content: bytes) -> Iterator[Record]:
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise BadRun(
                f"Line {number} of {path} is damaged, and records follow it. Restore the file from a "
                "copy, or start again in another folder."
            )
        yield record
