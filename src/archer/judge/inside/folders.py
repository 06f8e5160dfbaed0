"""The temporary folders of a zygote's children, in tiers without a mount of their own.

They all lie in one folder that the zygote itself makes and removes, so that nothing stays behind
whenever the judge is ended. Programs fill them with deep trees, folders without rights, and links.

Every fork copies the memory of the zygote: no large library for a small service here.
"""

import contextlib
import os
from pathlib import Path

UNLISTED = 0o311  # a program can enter its own folder, but not see that there are others


class Folders:
    """Hands out one empty folder per child, to a user of its own or (None) to this one."""

    def __init__(self, base: str, uid: int | None) -> None:
        self._base = Path(base)
        self._uid = uid
        self._base.mkdir(0o700)
        self._base.chmod(UNLISTED)

    def make(self) -> str:
        """A new folder with a name that nobody can guess."""
        folder = self._base / os.urandom(8).hex()
        folder.mkdir(0o700)
        if self._uid is not None:
            os.chown(folder, self._uid, self._uid)
        return str(folder)

    def close(self) -> None:
        remove(self._base)


def remove(folder: Path) -> None:
    """Removes a folder that no process uses any more. Follows no link, whatever lies in it."""
    with contextlib.suppress(FileNotFoundError):
        _flatten(folder)
        folder.rmdir()


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
                    Path(inner.path).rename(top / os.urandom(16).hex())
                else:
                    Path(inner.path).unlink()
            folder.rmdir()
