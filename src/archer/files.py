"""Files: a reader sees the old content or the new one, never a part; a text is one, or refused as none."""

import errno
import json
import math
import os
import stat
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO

from archer.errors import ArcherError, BadRequest, BadRun, DiskFault, reason_of

DEEPEST = 64
OWN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""How files of a run are opened for writing: its folder may come from somebody else, with links to other
files in it, or with pipes that keep a writer waiting."""
LARGEST = 1 << 30
"""Bytes of a file that is read as a whole; no run writes a larger one."""


def replace_file(path: Path, content: bytes) -> None:
    """The content under this name, whole or not at all, also after a power cut."""
    beside = path.with_name(f"{path.name}.new")
    try:
        with own_file(beside, os.O_WRONLY | os.O_TRUNC) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise DiskFault.of(path, error) from error


def own_file(path: Path, flags: int) -> BinaryIO:
    """A file opened for writing; OSError for a link, which leads to some other file."""
    return os.fdopen(os.open(path, flags | os.O_CREAT | OWN, 0o666), "wb")


def read_file(path: Path) -> bytes:
    """All of a regular file; OSError for whatever could keep its reader waiting or have no end."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if status.st_size > LARGEST:
            raise OSError(errno.EFBIG, f"it is larger than {LARGEST >> 20} MiB")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


def utf8_text(read: Callable[[], bytes], what: str, kind: type[ArcherError] = BadRequest) -> str:
    """What `read` gives as a text, without a mark of its byte order; refused as `what` where it is none."""
    try:
        return read().decode("utf-8-sig")
    except OSError as error:
        raise kind(f"{what} cannot be read: {reason_of(error)}.") from error
    except UnicodeDecodeError as error:
        raise kind(
            f"{what} is not UTF-8: byte {error.start} cannot be read. Convert it to UTF-8."
        ) from error


def finite(value: float) -> float | None:
    """A number as JSON has it: null where it is not finite."""
    return value if math.isfinite(value) else None


def check_target(path: Path) -> None:
    """Refuse, before any work, a file that could not be written after it; what is there stays."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        beside = path.with_name(f"{path.name}.new")
        own_file(beside, os.O_WRONLY).close()
        beside.unlink()
    except OSError as error:
        raise BadRequest(
            f"{path} cannot be written ({reason_of(error)}). Name a file in a folder that exists."
        ) from error


def replace_json(path: Path, value: Mapping[str, Any]) -> None:
    """A JSON object for people and programs."""
    replace_file(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; BadRun when there is none."""
    try:
        value = json.loads(read_file(path))
        if _deep(value):
            raise RecursionError("nested too deeply")
    except OSError as error:
        raise BadRun(f"{path} cannot be read ({reason_of(error)}).") from error
    except (ValueError, RecursionError) as error:
        raise BadRun(f"{path} is damaged: it holds no JSON ({error}).") from error
    if not isinstance(value, dict):
        raise BadRun(f"{path} is damaged: it holds no JSON object.")
    return value


@cache
def bundled_json(package: str, name: str) -> dict[str, Any]:
    """The object in a file that is shipped with a package; whoever asks must not change it."""
    value: dict[str, Any] = json.loads(files(package).joinpath(name).read_text(encoding="utf-8"))
    return value


def is_there(path: Path) -> bool:
    """Whether there is such a file or folder; BadRun where one may not know."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        raise BadRun(f"{path} cannot be read ({reason}).") from error
    return True


def _deep(value: object) -> bool:
    """Whether there are more levels than any file of a run has."""
    level: list[object] = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
