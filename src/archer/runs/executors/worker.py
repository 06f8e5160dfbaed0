"""What a worker does, wherever it is: load the model once, turn problems into records, and write nothing."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

from archer.engine.engine import Engine
from archer.errors import ArcherError
from archer.loading.source import Source
from archer.methods.build import Choice
from archer.methods.own_files import OwnPart
from archer.model import Model, load_here
from archer.request.request import Request
from archer.runs.decoding import Counted, GapRequest, Traced, ask, put, record_of, warm_up
from archer.runs.manifest import differences, model_identity


@dataclass(frozen=True)
class Order:
    """What a worker is hired for: a model, and what that model must be."""

    source: Source
    expected: Mapping[str, Any]
    """Its part of the run's identity; without `files` these are not read again."""

    def to_dict(self) -> dict[str, Any]:
        return {"source": asdict(self.source), "expected": dict(self.expected)}

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Order:
        return cls(Source(**fields["source"]), fields["expected"])


@dataclass(frozen=True)
class Item:
    """One problem as plain data."""

    key: str
    id: int | str
    prompt: tuple[int, ...]
    choice: Choice
    seed: int = 0
    gap: GapRequest | None = None
    traced: bool = False
    own: tuple[OwnPart, ...] = ()
    """Parts of the method that come from files, which a worker may not have."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Item:
        gap = fields["gap"] and tuple(fields["gap"])
        own = tuple(OwnPart(**each) for each in fields["own"])
        choice, prompt = Choice(**fields["choice"]), tuple(fields["prompt"])
        return cls(**{**fields, "choice": choice, "prompt": prompt, "gap": gap, "own": own})


class OtherModel(ArcherError):
    """A worker's checkpoint, dtype or device is not the run's."""


class Worker:
    """A loaded model; several threads may ask it to complete problems, which then share passes."""

    def __init__(self, order: Order) -> None:
        model = load_here(order.source)
        identity = model_identity(model, files="files" in order.expected)
        differing = differences(order.expected, identity)
        if differing:
            raise OtherModel(
                f"A worker has another model than the run ({'; '.join(differing[:3])}). Every machine "
                "must have the same checkpoint and version of Archer, and the same kind of device."
            )
        self._model: Model = model
        self._engine = Engine(model)
        self._warm = False

    def complete(self, item: Item) -> dict[str, Any]:
        """The record of a problem, and its trace where that is wanted."""
        for part in item.own:
            part.bring()
        request = ask(self._model, item.choice, item.seed, put(item.prompt, item.gap))
        if not self._warm:
            self._warm = True
            warm_up(self._model, request)
        if not item.traced:
            return {"record": self._record(item, request, Counted(self._model)), "trace": None}
        with TemporaryDirectory(prefix="archer-trace-") as folder:
            path = Path(folder) / "trace.jsonl"
            record = self._record(item, request, Traced(self._model, request, path))
            return {"record": record, "trace": path.read_text(encoding="utf-8")}

    def _record(self, item: Item, request: Request, listener: Counted) -> dict[str, Any]:
        completion = self._engine.enqueue(request, listener=listener).result()
        return record_of(item.id, item.prompt, completion, listener.operations).plain()


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
    """A worker as a process, started by `processes.py`: takes lines from stdin, answers on stdout."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # it is for the driver, which then ends its workers
    answers = _Answers()
    orders: SimpleQueue[dict[str, Any]] = SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    first = orders.get()
    try:
        worker = Worker(Order.of(first["order"]))
    except ArcherError as error:
        answers.send({"refused": str(error)})
        return
    answers.send({"ready": True})
    with ThreadPoolExecutor(first["threads"]) as pool:
        while True:
            pool.submit(_complete, worker, Item.of(orders.get()["item"]), answers)


def _listen(orders: SimpleQueue[dict[str, Any]]) -> None:
    """Hand on what the driver says; when it says no more it is gone, and there is nobody to work for."""
    for line in sys.stdin:
        orders.put(json.loads(line))
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
