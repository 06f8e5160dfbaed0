"""A measurement of real requests by `archer bench serve --json`, with all that simulating them needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from archer.costs.pass_times import Timed
from archer.costs.workload import Workload
from archer.errors import BadRequest


@dataclass(frozen=True)
class MeasuredLoad:
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


@dataclass(frozen=True)
class Recording:
    """Requests, the turns of the machine that served them, and how long they waited."""

    budget: int
    """Columns of a pass."""
    timed: tuple[Timed, ...]
    trajectories: tuple[Workload, ...]
    runs: tuple[MeasuredLoad, ...]


def plain(measured: Recording | tuple[Timed, ...]) -> Any:
    """As JSON has it."""
    kind: Any = Recording if isinstance(measured, Recording) else tuple[Timed, ...]
    return TypeAdapter(kind).dump_python(measured, mode="json")


def recording_of(values: Mapping[str, Any], where: str) -> Recording:
    """The recording in a result of `archer bench serve --json`; `where` names its file in refusals."""
    remedy = "Measure again with archer bench serve, and keep its JSON."
    if "recording" not in values:
        raise BadRequest(f"{where} holds no recording of requests and pass times. {remedy}")
    try:
        return TypeAdapter(Recording).validate_python(values["recording"])
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"]))
        raise BadRequest(
            f"The recording in {where} is damaged ({at}: {first['msg']}). {remedy}"
        ) from error


def timed_of(values: Mapping[str, Any], where: str) -> tuple[Timed, ...]:
    """Timed turns from a result of `archer bench passes --json`, or of a recording."""
    if "recording" in values:
        return recording_of(values, where).timed
    try:
        return TypeAdapter(tuple[Timed, ...]).validate_python(values.get("timed"))
    except ValidationError as error:
        raise BadRequest(
            f"{where} holds no timed passes. Measure some with archer bench passes, and keep its JSON."
        ) from error
