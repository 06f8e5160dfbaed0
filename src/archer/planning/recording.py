"""A measurement of real requests, kept so that a simulation of the same can be held against it.

`archer bench serve --json` writes it; what was measured and what a simulation needs stand in one file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archer.costs.pass_times import Fitted, Timed
from archer.costs.workload import Trajectory
from archer.errors import BadRequest


def clients_named(count: int) -> str:
    """The name of a load of so many clients."""
    return "1 client" if count == 1 else f"{count} clients"


@dataclass(frozen=True)
class Run:
    """Requests under one load: either at given times, or by clients who ask again once they are answered."""

    load: str
    arrivals: tuple[float, ...] = ()
    clients: int = 0
    seconds: float = float("inf")
    """No request begins later than this."""
    waits: tuple[tuple[int, float], ...] = ()
    """Which request was answered after how many seconds, as it was measured."""
    cpu: float = 0.0
    """Seconds that the server computed meanwhile; 0 where nobody counted."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "load": self.load,
            "arrivals": list(self.arrivals),
            "clients": self.clients,
            "seconds": self.seconds,
            "waits": [list(each) for each in self.waits],
            "cpu": self.cpu,
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Run:
        waits = tuple((number, seconds) for number, seconds in found["waits"])
        arrivals = tuple(found["arrivals"])
        clients = found["clients"]
        load = clients_named(clients) if clients else found["load"]
        return cls(load, arrivals, clients, found["seconds"], waits, found.get("cpu", 0.0))


@dataclass(frozen=True)
class Recording:
    """Requests, the turns of the machine that served them, and how long they waited."""

    budget: int
    """Columns of a pass."""
    timed: tuple[Timed, ...]
    trajectories: tuple[Trajectory, ...]
    alone: tuple[float, ...]
    """Seconds of each request alone, by the loop."""
    runs: tuple[Run, ...]

    def pass_times(self) -> Fitted:
        """Fitted to the turns that were timed and to the requests alone."""
        return Fitted.to(self.timed, zip(self.trajectories, self.alone, strict=True))

    def as_dict(self) -> dict[str, Any]:
        return {
            "budget": self.budget,
            "timed": [each.as_dict() for each in self.timed],
            "trajectories": [each.as_dict() for each in self.trajectories],
            "alone": list(self.alone),
            "runs": [run.as_dict() for run in self.runs],
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Recording:
        return cls(
            found["budget"],
            tuple(map(Timed.from_dict, found["timed"])),
            tuple(map(Trajectory.from_dict, found["trajectories"])),
            tuple(found["alone"]),
            tuple(map(Run.from_dict, found["runs"])),
        )


def read_recording(path: Path) -> Recording:
    """From a result of `archer bench serve --json`."""
    found = read_object(path)
    if "recording" not in found:
        raise BadRequest(
            f"{path} holds no recording of requests and pass times. "
            "Measure again with archer bench serve, and keep its JSON."
        )
    try:
        return Recording.from_dict(found["recording"])
    except (KeyError, TypeError, ValueError) as error:
        raise BadRequest(
            f"The recording in {path} is damaged ({type(error).__name__}: {error}). "
            "Measure again with archer bench serve, and keep its JSON."
        ) from error


def read_timed(path: Path) -> tuple[Timed, ...]:
    """Timed turns from a result of `archer bench passes --json`, or of a recording."""
    found = read_object(path)
    if "recording" in found:
        return read_recording(path).timed
    try:
        return tuple(map(Timed.from_dict, found["timed"]))
    except (KeyError, TypeError, ValueError) as error:
        raise BadRequest(
            f"{path} holds no timed passes. Measure some with archer bench passes, and keep its JSON."
        ) from error


def read_object(path: Path) -> dict[str, Any]:
    """One JSON object from a file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise BadRequest(f"{path} is not JSON: {error}.") from error
    if not isinstance(found, dict):
        raise BadRequest(f"{path} must hold one JSON object.")
    return found
