"""What a run is: its identity, which decides what may be continued or compared, and its circumstances."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from archer import __version__
from archer.errors import BadRequest
from archer.methods.build import Choice
from archer.methods.spelling import plain
from archer.model import Model
from archer.network.shape import Scheme
from archer.passes.bounds import MOST_TOKENS
from archer.request.fill import DELETE, SEARCH
from archer.runs.selection import Selection
from archer.tasks.base import CodeTask, Sample, Task

VERSION = 1
ORACLE, FIXED = "oracle", "fixed"
RULES = (ORACLE, FIXED, SEARCH, DELETE)
"""The length of the reference; that of the method; searched for; over-long, with end marks left out."""
PACKAGES = ("torch", "tokenizers", "safetensors", "math-verify")
MODEL_FILES = ("*.safetensors", "*.json", "*.txt", "*.jinja")


@dataclass(frozen=True)
class RunRequest:
    """One run as it was asked for, with a model and a task at hand."""

    model: Model
    task: Task
    choice: Choice
    seed: int = 0
    batch: int = 1
    chat: bool = True
    selection: Selection = field(default_factory=Selection)
    gap: str | None = None
    """How long a gap is made, where the task has gaps: one of RULES, or a number of tokens."""
    traces: int = 0
    """Every update is kept for the first N problems. Not part of the run's identity."""
    device: str | None = None
    """The kind of device others compute on, where the model at hand is an outline without weights."""


def check_gap(rule: str) -> str:
    """Refuse what says nothing about the length of a gap."""
    if rule not in RULES and not (rule.isdecimal() and 1 <= int(rule) <= MOST_TOKENS):
        raise BadRequest(
            f"The length of a gap is {', '.join(RULES)} or a number from 1 to {MOST_TOKENS}, not {rule!r}."
        )
    return rule


def check_numbers(batch: int, traces: int) -> None:
    """Refuse numbers that make no run."""
    if batch < 1:
        raise BadRequest(f"The batch must be a number above 0, not {batch}.")
    if traces < 0:
        raise BadRequest(f"The number of traces must be at least 0, not {traces}.")
    if traces and batch > 1:
        raise BadRequest("Traces of a run are recorded one problem at a time: use a batch of 1.")


def identity(request: RunRequest, samples: Sequence[Sample]) -> dict[str, Any]:
    """Whatever could change a completion or its grade."""
    model, task = request.model, request.task
    method = request.choice.build(request.model.folder.recommended)
    return {
        "version": VERSION,
        "archer": __version__,
        "task": {"name": task.name, "version": task.version, "data": dict(task.data.digests)},
        "evaluator": _evaluator(task),
        "selection": request.selection.to_dict(),
        "problems": {"n": len(samples), "sha256": digest([str(sample.id) for sample in samples])},
        "prompts": {"chat": request.chat, "sha256": digest([_prompt_of(each) for each in samples])},
        "method": {
            "name": method.name,
            "settings": plain(method.settings),
            **({"files": dict(method.files)} if method.files else {}),
        },
        "seed": request.seed,
        "batch": request.batch,
        **({} if request.gap is None else {"gap": request.gap}),
        "model": model_identity(model, device=request.device),
    }


def model_identity(
    model: Model, *, device: str | None = None, files: bool = True
) -> dict[str, Any]:
    """The part of it that is about the model; without `files` what can be told without reading them all."""
    digests = {"files": dict(_file_digests(model.folder.path))} if files else {}
    scheme, row = model.network.scheme, model.folder.architecture
    return {
        "architecture": row.name,
        **({"family": row.family} if row.hint else {}),
        **digests,
        "dtype": str(model.network.dtype).removeprefix("torch."),
        "device": device or model.network.device.type,
        **({} if scheme is Scheme.PLAIN else {"quantize": scheme.value}),
        **({"adapters": list(model.folder.adapters)} if model.folder.adapters else {}),
        **(
            {"weights": {"version": model.weights_version, "sha256": model.weights_digest}}
            if model.weights_version
            else {}
        ),
    }


def circumstances(
    request: RunRequest, judge: Mapping[str, Any] | None, executor: Mapping[str, Any]
) -> dict[str, Any]:
    """Where and when, and what was given rather than defaulted."""
    import torch

    from archer.machine.description import describe

    shards = request.model.network.all_shards
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": request.model.name,
        "given": {
            "method": request.choice.method,
            "preset": request.choice.preset,
            "settings": plain(request.choice.settings),
        },
        "judge": None if judge is None else dict(judge),
        "executor": dict(executor),
        "packages": dict(_versions()),
        **describe(),
        "threads": torch.get_num_threads(),
        "shards": 1 if shards is None else shards.shards,
    }


def differences(old: Mapping[str, Any], new: Mapping[str, Any], where: str = "") -> list[str]:
    """Every value that is not the same, as `name: old, now new`."""
    changes: list[str] = []
    for key in sorted(old.keys() | new.keys()):
        name = f"{where}{key}"
        before, after = old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            changes += differences(before, after, f"{name}.")
        elif before != after:
            changes.append(f"{name}: {_short(before)}, now {_short(after)}")
    return changes


def digest(value: Any) -> str:
    """sha256 of plain data."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _prompt_of(sample: Sample) -> Any:
    behind: list[Any] = [] if sample.infill is None else [sample.infill.suffix]
    if sample.canvas is not None:
        behind = [list(sample.canvas.parts), sample.canvas.length]
    return [[dict(message) for message in sample.messages], sample.prefix, *behind]


def _evaluator(task: Task) -> dict[str, Any]:
    if not isinstance(task, CodeTask):
        return {"metric": task.metric}
    limits = asdict(task.limits)
    return {"metric": task.metric, "suites": list(task.suites), "limits": dict(limits)}


def _file_digests(folder: Path) -> Iterator[tuple[str, str]]:
    paths = {path for pattern in MODEL_FILES for path in folder.glob(pattern)}
    for path in sorted(paths):
        seen = path.stat()
        yield path.name, _file_digest(path, seen.st_size, seen.st_mtime_ns)


@cache
def _file_digest(path: Path, size: int, changed: int) -> str:
    """Read once as long as the file does not change: many runs of one model ask for it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _versions() -> Iterator[tuple[str, str]]:
    for name in PACKAGES:
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
