"""Every error that Archer raises on purpose, so that callers can catch one root.

    ArcherError                     anything below; exit code 1 unless said otherwise
    |-- BadRequest (ValueError)     the request cannot be carried out            exit code 2
    |   |-- Incompatible            decoder and cache policy do not go together  exit code 2
    |   |-- TooLong                 prompt and response exceed the model         exit code 2
    |   `-- BadRun                  a run folder is damaged or another one       exit code 2
    |-- BadModel                    a model folder or hub id is refused          exit code 2
    |-- BadTrace                    a trace file is malformed                    exit code 2
    |-- NonFinite                   a pass gave NaN or infinite logits
    |-- PassFailed                  a pass or a decoder raised an error of its own
    |-- OutOfMemory                 there is not enough memory left for the request
    |-- Overloaded                  too many requests are waiting already
    |-- Closing                     the engine accepts no more requests
    |-- Cancelled                   the request was cancelled by its sender
    |-- Expired                     the request did not start or end in time
    |-- ShardLost                   a process that holds a part of the model ended
    |-- RunBusy                     somebody else is writing to the run folder   exit code 3
    |-- DiskFault                   the disk refused a write                     exit code 4
    `-- Stuck                       the guard on updates was reached

The message is always a sentence that names the cause and, where there is one, the remedy. Errors of
other libraries and of the operating system are not wrapped without need.
"""

import difflib
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Literal, TypeVar


def extra(name: str) -> str:
    """How to install what an extra of the package brings."""
    return f"pip install '.[{name}]' in a clone of the repository"


class ArcherError(Exception):
    """Root of all errors raised on purpose; the command line prints it without a traceback."""

    exit_code: ClassVar[int] = 1


class BadRequest(ArcherError, ValueError):
    """The user asked for something impossible. Raised before any work starts."""

    exit_code: ClassVar[int] = 2


class Incompatible(BadRequest):
    """The chosen decoder and the chosen cache policy do not go together."""


class LongerThanTrained(UserWarning):
    """Prompt and response together are longer than what the model was trained on."""


class TooLong(BadRequest):
    """Prompt and response need more positions than the model has."""


class BadRun(BadRequest):
    """A run folder is damaged, incomplete, or was made by another request."""

    @classmethod
    def beyond_repair(cls, fault: str) -> "BadRun":
        """What is wrong with a file, and all that can be done about it."""
        return cls(f"{fault}. Restore the file from a copy, or start again in another folder.")


class RunBusy(ArcherError):
    """Somebody else is writing to the run folder."""

    exit_code: ClassVar[int] = 3


class DiskFault(ArcherError):
    """The disk refused a write. Everything acknowledged before is intact."""

    exit_code: ClassVar[int] = 4

    @classmethod
    def of(cls, path: Path, error: OSError) -> "DiskFault":
        return cls(
            f"{path} could not be written ({reason_of(error)}). What was recorded before is intact: "
            "mend this and run the same command again."
        )


class BadModel(ArcherError):
    """A model folder or hub id is refused. Raised before any weight is used."""

    exit_code: ClassVar[int] = 2


class BadTrace(ArcherError):
    """A trace file is malformed or does not fit the checkpoint it names."""

    exit_code: ClassVar[int] = 2


class NonFinite(ArcherError):
    """A pass of this `kind`, asked for by this `update`, returned NaN or infinite logits."""

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


class PassFailed(ArcherError):
    """A pass, or the decoder that reads it, raised an error; other requests are not concerned."""


class OutOfMemory(ArcherError):
    """There is not enough memory for a request, even with nothing else running, or for the weights."""


class Overloaded(ArcherError):
    """Too many requests are waiting; in `retry_after` seconds the queue may have moved."""

    def __init__(self, waiting: int, retry_after: float) -> None:
        super().__init__(waiting, retry_after)
        self.waiting = waiting
        self.retry_after = retry_after

    def __str__(self) -> str:
        waiting = "1 request is" if self.waiting == 1 else f"{self.waiting} requests are"
        return (
            f"{waiting} waiting already, and there is no room for more. "
            f"Try again in {self.retry_after:.0f} s."
        )


class Closing(ArcherError):
    """The engine is being closed and takes no new requests."""


class Cancelled(ArcherError):
    """The request was cancelled."""


class Expired(ArcherError):
    """The request ran out of time; `where` says whether it was still waiting or running."""

    def __init__(self, where: Literal["queue", "running"], seconds: float) -> None:
        super().__init__(where, seconds)
        self.where = where
        self.seconds = seconds

    def __str__(self) -> str:
        what = "was not begun" if self.where == "queue" else "did not end"
        return (
            f"The request {what} within {self.seconds:g} s. Allow more time, or ask for a shorter "
            "response."
        )


class ShardLost(ArcherError):
    """A process that holds a part of the model ended, or came to other numbers; the model is gone."""


Error = TypeVar("Error", bound=ArcherError)


def numbered(error: Error, at: int, total: int) -> Error:
    """The same error with the prompt it is about, where there are several; `at` is counted from 0."""
    if total == 1:
        return error
    own = [each for each in type(error).__mro__ if issubclass(each, ArcherError)]
    if all("__init__" not in vars(each) for each in own):
        return type(error)(f"Prompt {at + 1} of {total}: {error}")
    error.add_note(f"This was prompt {at + 1} of {total}.")
    return error


MOST_QUOTED = 80
"""Characters of what somebody else sent that a message repeats."""


def quoted(value: object) -> str:
    """A foreign value as messages show it: never the whole of something long."""
    try:
        text = repr(value[: MOST_QUOTED + 1] if isinstance(value, str) else value)
    except ValueError:  # an integer with thousands of digits
        text = f"a very long {type(value).__name__}"
    return text if len(text) <= MOST_QUOTED + 2 else f"{text[:MOST_QUOTED]}..."


def meant(name: str, known: Iterable[str]) -> str:
    """A guess at what was meant, as a sentence that goes on after another; nothing where no name is near."""
    if len(name) > MOST_QUOTED:
        return ""
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def reason_of(error: OSError) -> str:
    """What the operating system says went wrong; never nothing."""
    return error.strerror or str(error) or type(error).__name__


MOST_REASON = 300
"""Characters of a foreign error's own words that a message repeats."""


def words_of(error: BaseException) -> str:
    """All that an error says; nothing where it cannot even say it, as a stranger's may not."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - asked while another error is dealt with, which must not be lost
        return ""


def cause_of(error: BaseException) -> str:
    """The text of another library's error as part of a sentence: one line, not too long, never nothing."""
    words = " ".join(words_of(error)[: 4 * MOST_REASON].split()).rstrip(".")
    cut = words if len(words) <= MOST_REASON else f"{words[:MOST_REASON]}..."
    return cut or type(error).__name__


def kind_and_cause(error: BaseException) -> str:
    """The same with its kind in front."""
    kind, cause = type(error).__name__, cause_of(error)
    return kind if cause == kind else f"{kind}: {cause}"


_HARMLESS = "\n\t\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"


def printable(text: str) -> str:
    """The text with all that could steer a terminal as escapes; line breaks, tabs and joiners stay."""
    return "".join(
        c if c.isprintable() or c in _HARMLESS or unicodedata.category(c) == "Zs" else _escape(c)
        for c in text.replace("\r\n", "\n")
    )


def one_line(text: str) -> str:
    """The text as part of one line: line breaks and tabs are written as escapes, too."""
    return printable(text.replace("\r\n", "\\r\n")).replace("\n", "\\n").replace("\t", "\\t")


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
