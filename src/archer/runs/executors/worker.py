"""What a worker does, wherever it is: load the model once, then turn problems into records.

It knows neither tasks nor run folders, and it writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from archer.engine.engine import Engine
from archer.errors import ArcherError
from archer.loading.source import Source
from archer.model import Model, load_here
from archer.request import Request
from archer.runs.decoding import Counted, Traced, ask, record_of, warm_up
from archer.runs.manifest import differences, model_identity


@dataclass(frozen=True)
class Order:
    """What a worker is hired for: a model, and what that model must be."""

    source: Source
    expected: Mapping[str, Any]
    """Its part of the run's identity; without `files` these are not read again."""

    def as_dict(self) -> dict[str, Any]:
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
    method: str
    settings: Mapping[str, Any]
    preset: str | None
    seed: int
    traced: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Item:
        return cls(**{**fields, "prompt": tuple(fields["prompt"])})


class OtherModel(ArcherError):
    """A worker's checkpoint, dtype or device is not the run's."""


class Worker:
    """A loaded model; several threads may ask it to complete problems, which then share passes."""

    def __init__(self, order: Order) -> None:
        model = load_here(order.source)
        found = model_identity(model, files="files" in order.expected)
        differing = differences(order.expected, found)
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
        request = ask(self._model, item, [item.prompt])
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
