"""The record of a run: a file of JSON lines that only ever grows.

A record is acknowledged when `append` returns: it then is on the disk, by one write and one fsync. A write
that fails half-way is taken back. What a kill or a power cut leaves behind the last line break was never
acknowledged; it is moved to a side file when the journal is opened again.

Every line ends in a checksum of its record and of the line before, so that a changed byte, a changed
verdict and a line that was taken out or moved are found.
"""

import errno
import hashlib
import json
import logging
import os
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from archer.errors import BadRun, DiskFault, reason_of
from archer.files import OWN, own_file, read_file, sync_folder

Record = dict[str, Any]

DIGITS = 32
"""Of a checksum, in hexadecimal."""
CHECKED = re.compile(rb'(\{.*),"check":"([0-9a-f]{%d})"\}' % DIGITS, re.DOTALL)

log = logging.getLogger(__name__)


def read_records(path: Path) -> list[Record]:
    """All acknowledged records; what follows the last line break is passed over."""
    try:
        content = read_file(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BadRun(f"{path} cannot be read ({reason_of(error)}).") from error
    lines = _checked(path, content[: content.rfind(b"\n") + 1])
    return [_record(body, where) for where, body, _ in lines]


class Journal:
    """The one writer of a journal. Whoever opens it holds the lock of the run folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._guard = threading.Lock()
        self._broken = False
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | OWN, 0o666)
            try:
                sync_folder(path.parent)
                content = _without_torn_tail(path, self._handle)
            except BaseException:
                os.close(self._handle)
                raise
        except OSError as error:
            raise DiskFault.of(path, error) from error
        self._size, self._check = len(content), ""
        for _, _, self._check in _checked(path, content):
            pass

    def append(self, record: Mapping[str, Any]) -> None:
        """Record this durably, or raise DiskFault with the journal as it was. Safe between threads."""
        body = json.dumps(record, allow_nan=False, separators=(",", ":")).encode()
        with self._guard:
            if self._broken:
                raise DiskFault(f"{self._path} had a failed write; nothing more is recorded in it.")
            check = _check(self._check, body)
            line = body[:-1] + f',"check":"{check}"}}\n'.encode()
            try:
                self._require_file()
                written = os.write(self._handle, line)
                if written != len(line):
                    taken = f"No space left on device: {written} of {len(line)} bytes were taken"
                    raise OSError(errno.ENOSPC, taken)
                os.fsync(self._handle)
            except OSError as error:
                self._broken = True
                self._take_back()
                raise DiskFault.of(self._path, error) from error
            self._size += len(line)
            self._check = check

    def _require_file(self) -> None:
        """The journal must still be what its name stands for; writing would not notice otherwise."""
        try:
            same = os.path.samestat(self._path.stat(), os.fstat(self._handle))
        except FileNotFoundError:
            same = False
        if not same:
            raise DiskFault(
                f"{self._path} was deleted, moved or replaced during the run, and everything recorded "
                "in it may be lost. Put it back to continue, or start again in another folder."
            )

    def close(self) -> None:
        os.close(self._handle)

    def _take_back(self) -> None:
        """Where even this fails, the tail is found to be torn when the journal is opened again."""
        try:
            os.ftruncate(self._handle, self._size)
            os.fsync(self._handle)
        except OSError as error:
            log.warning("%s: a failed write could not be taken back (%s).", self._path, error)


def _without_torn_tail(path: Path, handle: int) -> bytes:
    """Move what was never acknowledged to a side file; what remains."""
    content = read_file(path)
    size = content.rfind(b"\n") + 1
    torn = content[size:]
    if torn:
        aside = path.with_name(f"{path.name}.torn")
        with own_file(aside, os.O_WRONLY | os.O_APPEND) as file:
            file.write(torn + b"\n")
        os.ftruncate(handle, size)
        os.fsync(handle)
        log.warning(
            "%s ended in an unfinished record of %d bytes; it was moved to %s and is done again.",
            path,
            len(torn),
            aside.name,
        )
    return content[:size]


def _checked(path: Path, content: bytes) -> Iterator[tuple[str, bytes, str]]:
    """Of every line where it stands, its record, and its checksum, which must follow from the line before."""
    check = ""
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        where = f"Line {number} of {path}"
        held = CHECKED.fullmatch(line)
        if held is None:
            raise BadRun.beyond_repair(f"{where} is damaged: it has no checksum")
        body = held[1] + b"}"
        check = _check(check, body)
        if held[2].decode() != check:
            raise BadRun.beyond_repair(
                f"{where} is damaged: it, or what stood before it, is not what was written"
            )
        yield where, body, check


def _record(body: bytes, where: str) -> Record:
    try:
        record = json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise BadRun.beyond_repair(f"{where} is damaged: it holds no JSON object")
    return record


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _check(previous: str, body: bytes) -> str:
    """The checksum of a record that follows another."""
    return hashlib.sha256(previous.encode() + body).hexdigest()[:DIGITS]
