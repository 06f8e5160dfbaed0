"""What every measurement tells besides its rows: what was measured, and on what."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from archer.bench.subject import Subject
from archer.machine.description import describe_torch
from archer.model import Model

Result = Mapping[str, Any]
"""What `archer bench NAME --json` prints."""


def subject_facts(bench: str, subject: Subject, **more: Any) -> dict[str, Any]:
    """Of a measurement of a network."""
    network = subject.network
    return {
        "bench": bench,
        "shape": subject.name,
        "layers": network.shape.layers,
        "depth": subject.depth,
        **more,
        "machine": describe_torch(network.device, network.dtype),
    }


def model_facts(bench: str, model: Model, **more: Any) -> dict[str, Any]:
    """Of a measurement of a whole model."""
    machine = describe_torch(model.network.device, model.network.dtype)
    return {"bench": bench, "model": model.name, **more, "machine": machine}


def with_rows(facts: Mapping[str, Any], rows: Iterable[Any]) -> dict[str, Any]:
    """Facts and the measured rows, which are dataclasses, as plain data."""
    return {**facts, "rows": [asdict(row) for row in rows]}


def setting(result: Result) -> str:
    """What was measured on what, as one line."""
    machine, what = result["machine"], list[str]()
    if name := result.get("shape", result.get("model")):
        what.append(f"`{name}`")
    if "layers" in result:
        what.append(f"{result['layers']} layers")
    for name in ("prompt", "response", "method", "tier", "samples", "programs"):
        if name in result:
            what.append(f"{name} {result[name]}")
    if result.get("quantize"):
        what.append(result["quantize"])
    cores, where = f"{machine['cores']} cores", [machine["cpu"]]
    if "threads" in machine:
        where += [f"{machine['threads']} of {cores}", machine["device"], machine["dtype"]]
        where.append(f"torch {machine['torch']}")
    else:
        where += [cores, f"Python {machine['python']}"]
    if "load" in machine:
        where.append(f"load {machine['load']}")
    return f"{', '.join(what)}. {', '.join(where)}."
