"""A simulation held against a measurement of the same requests on the same machine.

A turn that is repeated to be timed is warmer than a served one, and a shared machine is a fifth faster in one
minute than in another.  So pass times, which were fitted to turns before the load, are multiplied by one
factor, the drift, so that all simulated turns together take the CPU time that the server used.  Who waits for
whom, and for how long, is left to the simulation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from archer.costs.pass_times import Fitted
from archer.costs.recording import MeasuredLoad, Recording
from archer.costs.service import percentile
from archer.planning.schedulers import EngineScheduler
from archer.planning.simulation import (
    Arrivals,
    Clients,
    RequestSource,
    Simulated,
    SimulatedRequest,
    simulate,
)

STEADY = 0.005
"""A drift that would change by less is found."""
MOST_TRIES = 8


@dataclass(frozen=True)
class Compared:
    """One percentile under one load."""

    load: str
    what: str
    measured: float
    simulated: float
    drift: float
    """How many times as long the server took under this load as the timed turns would have it."""

    @property
    def error(self) -> float:
        return self.simulated / self.measured - 1.0


def compared(recording: Recording) -> Iterator[Compared]:
    """p50 and p99 under every load of a recording, simulated with the pass times it holds."""
    times = recording.pass_times()
    for run in recording.runs:
        ran, drift = _drifted(recording, run, times)
        real = [seconds for _, seconds in run.waits]
        answered = {number for number, _ in run.waits}
        made = [each.seconds for each in ran.answered if each.number in answered] or [0.0]
        for percent in (50, 99):
            yield Compared(
                run.load, f"p{percent}", percentile(real, percent), percentile(made, percent), drift
            )


def _drifted(recording: Recording, run: MeasuredLoad, times: Fitted) -> tuple[Simulated, float]:
    """The run, simulated so that its turns take as long as the server computed; and the drift.

    Other times make other turns where requests arrive by the clock, so the drift is found step by step.
    """
    requests = [SimulatedRequest(each) for each in recording.trajectories]
    drift = off = 1.0
    for _ in range(MOST_TRIES):
        drift *= off
        source, slower = _source(run), times.slower(drift)
        ran = simulate(requests, source, lambda: EngineScheduler(recording.budget), slower)
        off = run.cpu / ran.busy if run.cpu and ran.busy else 1.0
        if abs(off - 1.0) < STEADY:
            break
    return ran, drift


def _source(run: MeasuredLoad) -> RequestSource:
    if run.clients:
        return Clients(run.clients, len(run.waits), run.seconds)
    return Arrivals([at for at in run.arrivals if at <= run.seconds])
