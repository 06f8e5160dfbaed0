"""How many connections there may be: per address, in all, and always a few for those who ask after it.

A connection costs a descriptor from the moment it is accepted, before anything is known of it.  So they are
counted by the socket that accepts them, and the bound follows from what the process may open.  A connection
is idle while no request of it is under way; where there is no room for another, the one that is idle for
longest is closed: first of the same address, if that has too many, else of all.  Where none is idle, the
oldest whose request has not arrived whole makes room, if its network holds more than the newcomer's.
"""

import socket
import sys
from collections import Counter, OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from archer.errors import BadRequest
from archer.server import limits
from archer.server.access import network_of

LATER = 24
"""Descriptors that a server opens after its socket: pipes of child processes, files of the model."""
FEWEST = 8
"""Connections below which it makes no sense to serve."""


class OpenLine(Protocol):
    """A connection that can be closed because nothing is under way on it, or nothing whole."""

    def make_room(self) -> None: ...


@dataclass(frozen=True)
class ConnectionLimits:
    """`most` ordinary connections, `per_address` of them; `kept` further ones for signs of life."""

    most: int
    per_address: int
    kept: int
    pending: int
    """Accepted in one go, and so open beyond the limit for a moment."""

    @classmethod
    def of(cls, descriptors: int, opened: int) -> "ConnectionLimits":
        """What fits into this many descriptors, of which some are open already."""
        room = min(descriptors - opened - LATER, 2 * limits.CONNECTIONS)
        kept = max(2, room // 16)
        pending = max(2, min(room // 8, 128))
        most = min(room - kept - pending, limits.CONNECTIONS)
        if most < FEWEST:
            raise BadRequest(
                f"This process may open {descriptors} files and sockets at once, which is too few for a "
                f"server: it needs at least {needed(opened)}. Raise the limit (ulimit -n)."
            )
        return cls(most, max(FEWEST // 2, most // 2), kept, pending)


def needed(opened: int) -> int:
    """Descriptors for the fewest connections."""
    return opened + LATER + FEWEST + 2 + 2


def limits_here() -> ConnectionLimits:
    """What this process can bear now."""
    if sys.platform == "win32":
        return ConnectionLimits.of(4 * limits.CONNECTIONS, 0)
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = soft == resource.RLIM_INFINITY
    return ConnectionLimits.of(4 * limits.CONNECTIONS if unlimited else soft, _opened())


def _opened() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 16


class Connections:
    """Counts what is open and knows what is idle; asked on the event loop only."""

    def __init__(self, bounds: ConnectionLimits) -> None:
        self.bounds = bounds
        self._open: Counter[Hashable] = Counter()
        self._idle: OrderedDict[OpenLine, Hashable] = OrderedDict()
        """Longest first."""
        self._incomplete: OrderedDict[OpenLine, Hashable] = OrderedDict()
        """Those whose request has begun and not arrived whole; oldest first."""
        self._closing: dict[OpenLine, Hashable] = {}
        """Those that were told to close and have not done so yet."""
        self._arriving = 0
        """Accepted, and not heard of since."""

    @property
    def full_for_now(self) -> bool:
        """All places are taken, some by connections that may be idle in a moment and make room."""
        return self._arriving > 0 and self._count() >= self.bounds.most + self.bounds.kept

    def made(self, connection: OpenLine, address: str) -> bool:
        """A connection that was counted in is there; whether it is beyond the limits.

        Then it gets signs of life only.
        """
        self._arriving -= 1
        self.idle(connection, address)
        network = network_of(address)
        return self._count(network) > self.bounds.per_address or self._count() > self.bounds.most

    def accept(self, address: str) -> bool:
        """Count a connection in, and close another where there are too many; False: it has no place."""
        network = network_of(address)
        if self._count(network) >= self.bounds.per_address:
            self._close_idle_of(network)
        elif self._count() >= self.bounds.most and not self._close_idle_of(None):
            self._close_incomplete_for(network)
        if self._count() >= self.bounds.most + self.bounds.kept:
            return False
        if self._open.total() >= self.bounds.most + self.bounds.kept + self.bounds.pending:
            return False
        self._open[network] += 1
        self._arriving += 1
        return True

    def idle(self, connection: OpenLine, address: str) -> None:
        """From now on nothing is under way on it; of several that were accepted at once, older ones go."""
        network = network_of(address)
        self._incomplete.pop(connection, None)
        self._idle[connection] = network
        self._idle.move_to_end(connection)
        if self._count(network) > self.bounds.per_address:
            self._close_idle_of(network, but=connection)
        elif self._count() > self.bounds.most:
            self._close_idle_of(None, but=connection)

    def begun(self, connection: OpenLine, address: str) -> None:
        """A request has begun on it, and the rest of it is still to come."""
        self._idle.pop(connection, None)
        self._incomplete.setdefault(connection, network_of(address))

    def busy(self, connection: OpenLine) -> None:
        """It has sent a whole request."""
        self._idle.pop(connection, None)
        self._incomplete.pop(connection, None)

    def gone(self, connection: OpenLine, address: str) -> None:
        """It is closed; its descriptor is free again."""
        network = network_of(address)
        self.busy(connection)
        self._closing.pop(connection, None)
        self._open[network] -= 1
        if not self._open[network]:
            del self._open[network]

    def _count(self, network: Hashable = None) -> int:
        """Connections that will still be there, of an address or in all."""
        closing = self._closing.values()
        if network is None:
            return self._open.total() - len(closing)
        return self._open[network] - sum(own == network for own in closing)

    def _close_idle_of(self, network: Hashable, but: OpenLine | None = None) -> bool:
        longest = (
            each
            for each, own in self._idle.items()
            if each is not but and (network is None or own == network)
        )
        return self._close(next(longest, None), self._idle)

    def _close_incomplete_for(self, newcomer: Hashable) -> None:
        """Take from the network that holds most, but never so much that it could ask for it back."""
        most = max(dict.fromkeys(self._incomplete.values()), key=self._count, default=newcomer)
        if self._count(newcomer) + 1 < self._count(most):
            oldest = next(each for each, own in self._incomplete.items() if own == most)
            self._close(oldest, self._incomplete)

    def _close(self, connection: OpenLine | None, among: dict[OpenLine, Hashable]) -> bool:
        if connection is None:
            return False
        self._closing[connection] = among.pop(connection)
        connection.make_room()
        return True


class CountedSocket(socket.socket):
    """Listens; what `Connections` has no place for is closed before anything is read from it."""

    connections: Connections | None = None

    def listen(self, backlog: int = 0, /) -> None:
        """Whatever is accepted at once, the kernel keeps as many waiting as there may be connections."""
        super().listen(max(backlog, limits.CONNECTIONS))

    def accept(self) -> tuple[socket.socket, Any]:
        while True:
            if self.connections is not None and self.connections.full_for_now:
                raise BlockingIOError  # it stays with the kernel until the event loop's next round
            made, address = super().accept()
            if self.connections is None or self.connections.accept(address[0]):
                return made, address
            made.close()
