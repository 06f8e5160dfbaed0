"""A worker as a process: takes lines from stdin, answers on stdout. Started by `processes.py`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from archer.errors import ArcherError
from archer.runs.executors.worker import Item, Order, Worker


class _Answers:
    """The way back to the driver; whatever else is printed goes to stderr."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._file = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)

    def send(self, message: dict[str, Any]) -> None:
        with self._guard:
            self._file.write(json.dumps(message, allow_nan=False).encode() + b"\n")
            self._file.flush()


def main() -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is for the driver, which then ends its workers
    answers = _Answers()
    asked: SimpleQueue[dict[str, Any]] = SimpleQueue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    first = asked.get()
    try:
        worker = Worker(Order.of(first["order"]))
    except ArcherError as error:
        answers.send({"refused": str(error)})
        return
    answers.send({"ready": True})
    with ThreadPoolExecutor(first["threads"]) as pool:
        while True:
            pool.submit(_complete, worker, Item.of(asked.get()["item"]), answers)


def _listen(asked: SimpleQueue[dict[str, Any]]) -> None:
    """Hand on what the driver says; when it says no more it is gone, and there is nobody to work for."""
    for line in sys.stdin:
        asked.put(json.loads(line))
    os._exit(0)


def _complete(worker: Worker, item: Item, answers: _Answers) -> None:
    try:
        answers.send({"key": item.key, **worker.complete(item)})
    except ArcherError as error:
        answers.send({"refused": str(error)})
    except BaseException:  # noqa: BLE001 - a worker that failed must not look like one that computes
        sys.excepthook(*sys.exc_info())
        os._exit(1)


if __name__ == "__main__":
    main()
