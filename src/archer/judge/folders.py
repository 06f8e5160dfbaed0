"""Temporary folders of programs in tiers without a mount of their own.

The judge owns these folders, watches their size and removes them, whatever a program left there:
deep trees, unreadable folders, links to elsewhere. It follows no link.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from archer.judge.inside import folders
from archer.judge.plan import TEMPORARY_BYTES, TEMPORARY_FILES

BLOCK: Final = 512  # bytes in the unit of st_blocks
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
        folders.remove(folder)

    def close(self) -> None:
        """Removes everything."""
        with contextlib.suppress(FileNotFoundError):
            self.base.chmod(0o700)
            for folder in self.base.iterdir():
                self.remove(folder)
        shutil.rmtree(self.base, ignore_errors=True)


def overfull(folder: Path) -> bool:
    """Whether a program has put more into its folder than it may; looks no further than needed.

    What cannot be looked at, because it is too deep or nobody may read it, counts as too much.
    """
    size = 0
    try:
        for files, entry in enumerate(_tree(folder), start=1):
            with contextlib.suppress(FileNotFoundError):
                found = entry.stat(follow_symlinks=False)
                size += max(found.st_size, found.st_blocks * BLOCK)
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
