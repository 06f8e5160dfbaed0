"""Members that serve one caller at a time, each started when it is first needed."""

import contextlib
import queue
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """What a pool holds."""

    def close(self) -> None:
        """Ends the member."""


Member = TypeVar("Member", bound=Closable)


class Pool(Generic[Member]):
    """At most `count` members, replaced after any exception but `harmless` ones. Safe between threads."""

    def __init__(
        self,
        count: int,
        first: Member,
        start: Callable[[], Member],
        harmless: tuple[type[Exception], ...] = (),
    ) -> None:
        self._count = count
        self._start = start
        self._harmless = harmless
        self._free: queue.LifoQueue[Member | None] = queue.LifoQueue()
        for _ in range(count - 1):
            self._free.put(None)
        self._free.put(first)

    @contextlib.contextmanager
    def member(self) -> Iterator[Member]:
        """A member for the time of a `with`; waits while all are taken."""
        member = self._free.get()
        healthy = False
        try:
            if member is None:
                member = self._start()
            yield member
            healthy = True
        except self._harmless:
            healthy = True
            raise
        finally:
            if not healthy and member is not None:
                member.close()
            self._free.put(member if healthy else None)

    def close(self) -> None:
        """Waits for the members that are taken, and ends all."""
        for _ in range(self._count):
            member = self._free.get()
            if member is not None:
                member.close()
