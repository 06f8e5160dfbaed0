"""Temporary folders of programs in tiers without a mount of their own.

The judge owns these folders, watches their size and removes them, whatever a program left there:
deep trees, unreadable folders, links to elsewhere. It follows no link.
"""

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from archer.judge.plan import TEMPORARY_BYTES, TEMPORARY_FILES

PREFIX: Final = "archer-judge-"
UNLISTED: Final = 0o311  # a program can enter its own folder, but not see that there are others


class Folders:
    """Hands out one empty folder per child."""

    def __init__(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
        self.base.chmod(UNLISTED)

    def make(self, uid: int | None) -> Path:
        """A new folder for a program that runs as another user, or as this one (None)."""
        folder = Path(tempfile.mkdtemp(dir=self.base))
        if uid is not None:
            os.chown(folder, uid, uid)
        return folder

    def remove(self, folder: Path) -> None:
        """Removes a folder that no process uses any more."""
        _flatten(folder)
        with contextlib.suppress(FileNotFoundError):
            folder.rmdir()

    def close(self) -> None:
        """Removes everything."""
        self.base.chmod(0o700)
        for folder in self.base.iterdir():
            self.remove(folder)
        shutil.rmtree(self.base, ignore_errors=True)


def overfull(folder: Path) -> bool:
    """Whether a program has put more into its folder than it may; looks no further than needed."""
    size = 0
    for files, entry in enumerate(_tree(folder), start=1):
        with contextlib.suppress(OSError):
            size += entry.stat(follow_symlinks=False).st_size
        if files > TEMPORARY_FILES or size > TEMPORARY_BYTES:
            return True
    return False


def _tree(top: Path) -> Iterator[os.DirEntry[str]]:
    """Everything in a folder and below, as far as it can be read; links are not followed."""
    waiting = [str(top)]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)


def _flatten(top: Path) -> None:
    """Empties a folder without recursion: each inner folder is first moved up to the top."""
    top.chmod(0o700)
    while entries := list(os.scandir(top)):
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                Path(entry.path).unlink()
                continue
            folder = Path(entry.path)
            folder.chmod(0o700)
            for inner in list(os.scandir(folder)):
                if inner.is_dir(follow_symlinks=False):
                    Path(inner.path).chmod(0o700)
                    Path(inner.path).rename(top / secrets.token_hex(16))
                else:
                    Path(inner.path).unlink()
            folder.rmdir()
