"""What can go wrong with a run folder, each with an exit code of its own."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from archer.errors import ArcherError, BadRequest, reason_of


class BadRun(BadRequest):
    """A run folder is damaged, incomplete, or was made by another request."""


class RunBusy(ArcherError):
    """Somebody else is writing to the run folder."""

    exit_code: ClassVar[int] = 3


class DiskFault(ArcherError):
    """The disk refused a write. Everything acknowledged before is intact."""

    exit_code: ClassVar[int] = 4

    @classmethod
    def of(cls, path: Path, error: OSError) -> DiskFault:
        return cls(
            f"{path} could not be written ({reason_of(error)}). What was recorded before is intact: "
            "mend this and run the same command again."
        )
