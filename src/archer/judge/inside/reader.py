"""The reader's side: does named operations on texts of unknown origin, one after the other.

Unlike a program or a test, a text is only looked at, never run, so this process stays. But looking
can take for ever, fill the memory or overflow the stack: then it ends, and another takes its place. So it is
when texts leave much behind, such as names that the interpreter never forgets: the next text needs the room.
"""

import resource
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from . import limits, wire

REASON_LENGTH = 200
OPERATIONS = "operations"
"""The module that holds the table of what can be asked; the judge sends it along."""
WORN = 0.25
"""The part of its memory that a process may have used before it is replaced."""


def serve(connection: wire.Connection) -> NoReturn:
    """Answers until nobody asks any more."""
    _, body = connection.receive()
    memory = int(wire.loads(body)["memory_bytes"])
    limits.limit_memory(memory)
    while True:
        _, body = connection.receive()
        connection.send(wire.ANSWER, answer(body, memory))


def answer(body: bytes, memory: int) -> bytes:
    """What an operation found, or why it found nothing; `worn` asks for another process from now on."""
    request = wire.loads(body)
    operation = operations()[request["operation"]]
    try:
        answer = operation(request["text"], **request["facts"])
        reply = wire.dumps({"found": answer, "worn": most_used() > WORN * memory})
    except Exception as error:  # noqa: BLE001 - a text may raise anything, and it is its own fault
        reply = wire.dumps({"error": f"{type(error).__name__}: {error}"[:REASON_LENGTH]})
    if len(reply) > wire.MESSAGE_BYTES:
        return wire.dumps({"error": f"what was found takes {len(reply)} bytes"})
    return reply


def most_used() -> int:
    """Bytes of memory that this process had at the most."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def operations() -> dict[str, Callable[..., Any]]:
    table: dict[str, Callable[..., Any]] = sys.modules[f"{__package__}.{OPERATIONS}"].OPERATIONS
    return table


def rehearse() -> None:
    """Nothing to do: the process stays, so its first text is as good a rehearsal as any."""
