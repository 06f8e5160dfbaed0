"""The judge's ends of sockets and pipes, which neither block nor grow without bound, and waiting for them."""

import os
import select
import socket
import time
from collections.abc import Callable, Iterator

from archer.judge.inside import wire

CHUNK = 1 << 16  # small enough to be allocated without asking the kernel for memory


class Channel:
    """Frames over a socket to another process, sent and received without ever waiting."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection = connection
        self.ended = False
        self._incoming = bytearray()
        self._outgoing = bytearray()

    def send(self, kind: int, body: bytes) -> None:
        """Queues one frame and sends as much as the other side takes now."""
        self._outgoing += wire.frame(kind, body)
        self.flush()

    def flush(self) -> None:
        """Sends more of what is queued. A vanished reader is noticed when reading, not here."""
        while self._outgoing:
            try:
                sent = self.connection.send(self._outgoing)
            except BlockingIOError:
                return
            except OSError:
                self._outgoing.clear()
                return
            del self._outgoing[:sent]

    @property
    def sending(self) -> bool:
        return bool(self._outgoing)

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Reads once and gives the complete frames. WireError for a frame over the cap."""
        try:
            chunk = self.connection.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        self.ended = not chunk
        self._incoming += chunk
        while len(self._incoming) >= wire.HEADER.size:
            length, kind = wire.HEADER.unpack_from(self._incoming)
            if length > wire.MESSAGE_BYTES:
                raise wire.WireError(f"a message of {length} bytes, over the cap")
            end = wire.HEADER.size + length
            if len(self._incoming) < end:
                return
            body = bytes(self._incoming[wire.HEADER.size : end])
            del self._incoming[:end]
            yield kind, body


class Drain:
    """Reads a pipe to its end, keeps the first bytes, and notes whether there were more."""

    def __init__(self, descriptor: int, keep: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.kept = bytearray()
        self.flooded = False
        self.ended = False
        self._keep = keep

    def read(self) -> bool:
        """Takes what is there, at most one chunk; False if there was nothing."""
        try:
            chunk = os.read(self.descriptor, CHUNK)
        except BlockingIOError:
            return False
        self.ended = not chunk
        room = self._keep - len(self.kept)
        self.kept += chunk[:room]
        self.flooded = self.flooded or len(chunk) > room
        return bool(chunk)


class Feed:
    """Writes a text into a pipe as far as the reader takes it, then closes the pipe."""

    def __init__(self, descriptor: int, data: bytes) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self._rest = memoryview(data)

    def write(self) -> bool:
        """Writes more; True when nothing is left to do, because all is written or nobody reads."""
        try:
            self._rest = self._rest[os.write(self.descriptor, self._rest[:CHUNK]) :]
        except BlockingIOError:
            return False
        except BrokenPipeError:
            return True
        return not self._rest


Action = Callable[[], None]

READABLE = select.POLLIN | select.POLLHUP | select.POLLERR
MILLISECONDS = 1000


def wait_readable(descriptor: int, seconds: float) -> None:
    """Waits until a descriptor can be read, at most so long. Unlike `select`, takes any number."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.poll(seconds * MILLISECONDS)


class Watch:
    """Calls the action of each descriptor that is ready. Not reusable."""

    def __init__(self, seconds: float) -> None:
        self._poll = select.poll()
        self._actions: dict[int, Action] = {}
        self._channels: dict[int, Channel] = {}
        self.started = time.monotonic()
        self.deadline = self.started + seconds

    def seconds(self) -> float:
        return time.monotonic() - self.started

    def channel(self, channel: Channel, action: Action) -> None:
        """Watches a channel: sends what is queued, calls the action when something has come."""
        descriptor = channel.connection.fileno()
        self._channels[descriptor] = channel
        self.readable(descriptor, action)

    def readable(self, descriptor: int, action: Action) -> None:
        self._register(descriptor, select.POLLIN, action)

    def writable(self, descriptor: int, action: Action) -> None:
        self._register(descriptor, select.POLLOUT, action)

    def _register(self, descriptor: int, events: int, action: Action) -> None:
        self._actions[descriptor] = action
        self._poll.register(descriptor, events)

    def forget(self, descriptor: int) -> None:
        del self._actions[descriptor]
        self._channels.pop(descriptor, None)
        self._poll.unregister(descriptor)

    def wait(self, longest: float) -> bool:
        """Waits once and acts; False when the deadline has passed."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            return False
        for descriptor, channel in self._channels.items():
            room = select.POLLOUT if channel.sending else 0
            self._poll.modify(descriptor, select.POLLIN | room)
        for descriptor, events in self._poll.poll(min(left, longest) * MILLISECONDS):
            self._act(descriptor, events)
        return True

    def _act(self, descriptor: int, events: int) -> None:
        channel = self._channels.get(descriptor)
        if channel is not None and events & select.POLLOUT:
            channel.flush()
        action = self._actions.get(descriptor)
        if action is not None and (channel is None or events & READABLE):
            action()
