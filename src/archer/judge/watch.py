"""Waiting for several descriptors at once, up to a deadline."""

import select
import time
from collections.abc import Callable

from archer.judge.channel import Channel

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
