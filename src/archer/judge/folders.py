"""What programs have put into their temporary folders, in tiers without a mount of their own.

The zygotes make and remove these folders; the judge names the one in which they lie, and watches.
"""

import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from archer.judge.sandbox_plan import TEMPORARY_BYTES, TEMPORARY_FILES

BLOCK: Final = 512  # bytes in the unit of st_blocks
PREFIX: Final = "archer-judge-"


def new_base() -> str:
    """Where a zygote can make the folder for those of its children; there is nothing yet."""
    return str(Path(tempfile.gettempdir()).resolve() / f"{PREFIX}{secrets.token_hex(8)}")


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
