"""Removing folders that hostile programs have filled: deep trees, folders without rights, links."""

import contextlib
import os
import secrets
from pathlib import Path


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
                    Path(inner.path).rename(top / secrets.token_hex(16))
                else:
                    Path(inner.path).unlink()
            folder.rmdir()
