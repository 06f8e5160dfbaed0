"""Every error that Archer raises on purpose, so that callers can catch one root.

    ArcherError                     anything below; exit code 1 unless said otherwise
    |-- BadRequest (ValueError)     the request cannot be carried out            exit code 2
    |   `-- Incompatible            decoder and cache policy do not go together  exit code 2
    |-- BadModel                    a model folder or hub id is refused          exit code 2
    |-- BadTrace                    a trace file is malformed                    exit code 2
    |-- NonFinite                   a pass gave NaN or infinite logits
    `-- Stuck                       the guard on updates was reached

The message is always a sentence that names the cause and, where there is one, the remedy. Errors of
other libraries and of the operating system are not wrapped without need.
"""

from typing import ClassVar


class ArcherError(Exception):
    """Root of all errors raised on purpose; the command line prints it without a traceback."""

    exit_code: ClassVar[int] = 1


class BadRequest(ArcherError, ValueError):
    """The user asked for something impossible. Raised before any work starts."""

    exit_code: ClassVar[int] = 2


class Incompatible(BadRequest):
    """The chosen decoder and the chosen cache policy do not go together."""


class BadModel(ArcherError):
    """A model folder or hub id is refused. Raised before any weight is used."""

    exit_code: ClassVar[int] = 2


class BadTrace(ArcherError):
    """A trace file is malformed or does not fit the checkpoint it names."""

    exit_code: ClassVar[int] = 2


class NonFinite(ArcherError):
    """A pass returned NaN or infinite logits; nothing can be decided from them.

    `update` is the number of the update that asked for the pass, `kind` the kind of that pass
    ("full" or "cached").
    """

    def __init__(self, update: int, kind: str) -> None:
        super().__init__(update, kind)
        self.update = update
        self.kind = kind

    def __str__(self) -> str:
        return (
            f"The {self.kind} pass of update {self.update} returned NaN or infinite logits. "
            "Load the model in float32, and check that the checkpoint is undamaged."
        )


class Stuck(ArcherError):
    """Decoding did not end within the allowed number of updates; it is never cut off silently."""


def reason_of(error: OSError) -> str:
    """What the operating system says went wrong; never nothing."""
    return error.strerror or str(error) or type(error).__name__
