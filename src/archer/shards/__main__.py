"""A process that is one shard; started by the first one, never by hand."""

import os
import signal
import sys
import threading

from archer.errors import ArcherError, ShardLost, one_line
from archer.shards.start import ShardTask, follow_task

ENDED = 1
LIFELINE = 0
"""Nothing is ever written to this end of it."""
FIRST_SPEAKS = 5.0
"""Seconds for the first shard to say what happened, which ends this process."""


class _Ending:
    """The one sentence that a shard says when it ends before its time."""

    def __init__(self, task: ShardTask) -> None:
        self._name = f"shard {task.rank + 1} of {task.source.shards}"
        self._speaks = threading.Lock()

    def now(self, sentence: str) -> None:
        if self._speaks.acquire(blocking=False):
            sys.stderr.write(f"archer: {self._name}: {one_line(sentence)}\n")
            sys.stderr.flush()
            os._exit(ENDED)
        threading.Event().wait()

    def with_the_first(self) -> None:
        """The lifeline holds as long as the first shard lives."""
        while os.read(LIFELINE, 1):
            pass
        self.now("the first shard ended, so this one ends.")


def main() -> None:
    task = ShardTask.decoded(sys.argv[1])
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # as the first one is, which tells this one
    ending = _Ending(task)
    threading.Thread(target=ending.with_the_first, daemon=True).start()
    try:
        follow_task(task)
        os._exit(0)  # the thread that holds the lifeline still reads
    except ShardLost as error:
        threading.Event().wait(FIRST_SPEAKS)
        ending.now(str(error))
    except ArcherError as error:
        ending.now(str(error))


if __name__ == "__main__":
    main()
