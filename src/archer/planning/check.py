"""A simulation held against a measurement of the same requests on the same machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from archer.bench.traffic import percentile
from archer.planning.recording import Recording, Run
from archer.planning.simulation import Arrivals, Clients, SimulatedRequest, Source, simulate
from archer.planning.ways import ByEngine

WITHIN = 0.2
"""Part by which a simulated percentile may miss the measured one."""


@dataclass(frozen=True)
class Compared:
    """One percentile under one load."""

    load: str
    what: str
    measured: float
    simulated: float

    @property
    def error(self) -> float:
        return self.simulated / self.measured - 1.0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"error": self.error}


def compared(recording: Recording) -> Iterator[Compared]:
    """p50 and p99 under every load of a recording, simulated with the pass times it holds."""
    times = recording.pass_times()
    requests = [SimulatedRequest(each) for each in recording.trajectories]
    for run in recording.runs:
        ran = simulate(requests, _source(run), lambda: ByEngine(recording.budget), times)
        real = [seconds for _, seconds in run.waits]
        told = {number for number, _ in run.waits}
        made = [each.seconds for each in ran.answered if each.number in told] or [0.0]
        for percent in (50, 99):
            yield Compared(
                run.load, f"p{percent}", percentile(real, percent), percentile(made, percent)
            )


def _source(run: Run) -> Source:
    if run.clients:
        return Clients(run.clients, len(run.waits), run.seconds)
    return Arrivals([at for at in run.arrivals if at <= run.seconds])
