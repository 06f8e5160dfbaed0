"""Errors of one kind in the log once per interval, so that nobody can fill a disk by causing one."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path

INTERVAL = 60.0
"""Seconds."""
MOST_KINDS = 256
"""Kinds that are remembered."""


class ErrorLog:
    """Logs each sentence once per interval, with how often it came meanwhile."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = log, clock
        self._kinds: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def failed(self, error: BaseException) -> None:
        """A request failed by this: what and where, innermost first, and not its message.

        That may hold a prompt.
        """
        self.error(f"A request failed in {' < '.join(_places(error))}.")

    def error(self, sentence: str) -> None:
        """One sentence, which is its own kind."""
        now = self._clock()
        since, missed = self._kinds.get(sentence, (now - INTERVAL, 0))
        if now - since < INTERVAL:
            self._kinds[sentence] = (since, missed + 1)
            return
        self._kinds[sentence] = (now, 0)
        self._kinds.move_to_end(sentence)
        if len(self._kinds) > MOST_KINDS:
            self._kinds.popitem(last=False)
        self._log.error("%s%s", sentence, f" It came {missed} times more before." if missed else "")


def _places(error: BaseException) -> Iterator[str]:
    yield type(error).__name__
    traceback, places = error.__traceback__, []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        places.append(f"{Path(code.co_filename).name}:{traceback.tb_lineno}")
        traceback = traceback.tb_next
    yield from reversed(places[-4:])
