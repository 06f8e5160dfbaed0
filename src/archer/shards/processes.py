"""The processes of the other shards where this one started them itself.

Each holds a pipe from here as its lifeline: when this process ends, however it ends, they end.  The other way
round a thread looks after them: a collective on an accelerator may wait for ever for a shard that is gone.
"""

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

from archer.machine.signals import signal_name

log = logging.getLogger(__name__)
NAMED_WITHIN = 2.0
"""Seconds in which a process that broke a connection is expected to be known as ended."""
STUCK_AFTER = 6.0
"""Seconds after a shard's end in which this process has to notice, before it is ended."""
LEAVING = 5.0
"""Seconds for the others to leave when they were told to."""
POLL = 0.05


class Processes:
    """The other shards, from the second on."""

    def __init__(self, commands: Sequence[Sequence[str]]) -> None:
        environment = os.environ | {"TORCH_CPP_LOG_LEVEL": "ERROR"}
        self.when_lost: Callable[[str], object] | None = None
        """Called on another thread with a sentence when one ends on its own, before the rest are ended."""
        self.stuck: Callable[[], bool] = lambda: False
        """Whether this process waits for the others right now."""
        self._closing = False
        self._all = [
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment
            )
            for command in commands
        ]
        threading.Thread(target=self._watch, name="archer-shards", daemon=True).start()

    @property
    def pids(self) -> list[int]:
        return [each.pid for each in self._all]

    def ended(self) -> str | None:
        """A sentence about the first that has ended."""
        for number, process in enumerate(self._all, start=2):
            code = process.poll()
            if code is not None:
                how = f"with exit code {code}" if code >= 0 else f"by {signal_name(-code)}"
                count = len(self._all) + 1
                return (
                    f"Shard {number} of {count} ended {how}, and the model cannot go on without it. "
                    "Start it again."
                )
        return None

    def fate(self) -> str | None:
        """The same, after a moment in which the end of a process becomes known."""
        last = time.monotonic() + NAMED_WITHIN
        while (sentence := self.ended()) is None and time.monotonic() < last:
            time.sleep(POLL)
        return sentence

    def close(self, *, goodbye: bool) -> None:
        self._closing = True
        last = time.monotonic() + (LEAVING if goodbye else 0.0)
        for process in self._all:
            try:
                process.wait(max(0.0, last - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def _watch(self) -> None:
        while not self._closing:
            sentence = self.ended()
            if sentence is not None and not self._closing:
                if self.when_lost is not None:
                    self.when_lost(sentence)
                self._end_the_rest()
                self._end_if_stuck(sentence)
                return
            time.sleep(POLL)

    def _end_the_rest(self) -> None:
        """They hold weights and wait for orders that can never come; with them ends what waits for them."""
        for process in self._all:
            process.kill()

    def _end_if_stuck(self, sentence: str) -> None:
        last = time.monotonic() + STUCK_AFTER
        while time.monotonic() < last:
            time.sleep(POLL)
            if self._closing or not self.stuck():
                return
        log.error(sentence)
        sys.stderr.flush()
        os._exit(1)
