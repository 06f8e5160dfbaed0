"""Waiting for several descriptors at once, up to a deadline."""

import selectors
import time
from collections.abc import Callable

from archer.judge.channel import Channel

Action = Callable[[], None]


class Watch:
    """Calls the action of each descriptor that is ready. Not reusable; close it after the run."""

    def __init__(self, seconds: float) -> None:
        self._selector = selectors.PollSelector()
        self._channels: list[Channel] = []
        self.started = time.monotonic()
        self.deadline = self.started + seconds

    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self.started

    def channel(self, channel: Channel, action: Action) -> None:
        """Watches a channel: sends what is queued, calls the action when something has come."""
        self._channels.append(channel)
        self._selector.register(channel.connection, selectors.EVENT_READ, (channel, action))

    def readable(self, descriptor: int, action: Action) -> None:
        """Calls the action whenever a descriptor can be read."""
        self._selector.register(descriptor, selectors.EVENT_READ, (None, action))

    def writable(self, descriptor: int, action: Action) -> None:
        """Calls the action whenever a descriptor can be written."""
        self._selector.register(descriptor, selectors.EVENT_WRITE, (None, action))

    def forget(self, descriptor: int) -> None:
        """Watches a descriptor no longer."""
        self._selector.unregister(descriptor)

    def forget_channel(self, channel: Channel) -> None:
        """Watches a channel no longer."""
        self._channels.remove(channel)
        self._selector.unregister(channel.connection)

    def wait(self, longest: float) -> bool:
        """Waits once and acts; False when the deadline has passed."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            return False
        for channel in self._channels:
            self._ask_for_room(channel)
        for key, events in self._selector.select(min(left, longest)):
            channel, action = key.data
            if channel is not None and events & selectors.EVENT_WRITE:
                channel.flush()
            if channel is None or events & selectors.EVENT_READ:
                action()
        return True

    def _ask_for_room(self, channel: Channel) -> None:
        key = self._selector.get_key(channel.connection)
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if channel.sending else 0)
        if key.events != events:
            self._selector.modify(channel.connection, events, key.data)

    def close(self) -> None:
        """Gives up the selector."""
        self._selector.close()
