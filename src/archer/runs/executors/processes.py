"""Workers that are processes here, one JSON object per line; one without a driver ends, as its input does."""

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections import deque
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import IO, Any

import torch

from archer.machine.signals import signal_name
from archer.runs.executors.dispatch import Lost, News, answered
from archer.runs.executors.worker import Item, Order

COMMAND = (sys.executable, "-P", "-m", "archer.runs.executors.worker")
# -P keeps the working directory off the import path: a stray torch.py there must not run.
CHUNK = 1 << 16


@dataclass
class _Process:
    handle: subprocess.Popen[bytes]
    stderr: IO[bytes]
    """What it wrote to stderr."""
    unfinished: bytes = b""

    @property
    def output(self) -> int:
        assert self.handle.stdout is not None
        return self.handle.stdout.fileno()


class ProcessPool:
    """A worker pool of processes; on a machine with several accelerators each gets the next one."""

    kind = "processes"
    checks_files = False

    def __init__(self) -> None:
        self._running: dict[int, _Process] = {}
        self._selector = selectors.DefaultSelector()
        self._heard: deque[News] = deque()

    def hire(self, worker: int, order: Order, threads: int) -> None:
        stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        handle = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
        )
        process = self._running[worker] = _Process(handle, stderr)
        self._selector.register(process.output, selectors.EVENT_READ, worker)
        own = replace(order, source=replace(order.source, device=_device(worker, order)))
        self._send(worker, {"order": own.to_dict(), "threads": threads})

    def give(self, worker: int, item: Item) -> None:
        self._send(worker, {"item": asdict(item)})

    def news(self, seconds: float) -> News | None:
        end = time.monotonic() + seconds
        while not self._heard:
            ready = self._selector.select(max(0.0, end - time.monotonic()))
            if not ready:
                return None
            for key, _ in ready:
                self._hear(key.data)
        return self._heard.popleft()

    def close(self) -> None:
        for process in self._running.values():
            process.handle.kill()
        for worker in list(self._running):
            self._ended(worker)
        self._heard.clear()

    def _send(self, worker: int, message: dict[str, Any]) -> None:
        """A worker that takes nothing any more is told as lost, or has been noticed and soon will be."""
        if worker not in self._running:
            return
        pipe = self._running[worker].handle.stdin
        assert pipe is not None
        with suppress(BrokenPipeError):
            pipe.write(json.dumps(message).encode() + b"\n")
            pipe.flush()

    def _hear(self, worker: int) -> None:
        process = self._running[worker]
        chunk = os.read(process.output, CHUNK)
        *lines, process.unfinished = (process.unfinished + chunk).split(b"\n")
        for line in lines:
            message = json.loads(line)
            self._heard.append(answered(worker, message.get("key"), message))
        if not chunk:
            self._heard.append(Lost(worker, self._ended(worker)))

    def _ended(self, worker: int) -> str:
        """Reap a process whose output has ended; how it did."""
        process = self._running.pop(worker)
        self._selector.unregister(process.output)
        handle = process.handle
        handle.kill()
        code = handle.wait()
        for pipe in (handle.stdin, handle.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        with process.stderr:
            return _reason(code, process.stderr)


def _reason(code: int, stderr: IO[bytes]) -> str:
    if code < 0:
        return f"killed by {signal_name(-code)}"
    stderr.seek(0)
    lines = stderr.read().decode(errors="replace").strip().splitlines()
    return f"it ended with exit code {code}{f': {lines[-1]}' if lines else ''}"


def _device(worker: int, order: Order) -> str | None:
    """The worker's own accelerator, where there are several and none was named."""
    kind = str(order.expected["device"])
    named = None if order.source.device is None else str(order.source.device)
    if named not in (None, kind) or kind == "cpu":
        return named
    count = torch.accelerator.device_count()
    return f"{kind}:{(worker - 1) % count}" if count > 1 else named
