"""A simulation held against a measurement of the same requests on the same machine.

A turn that is repeated to be timed is warmer than a served one, and a shared machine is a fifth faster in one
minute than in another.  So pass times, which were fitted to turns before the load, are multiplied by one
factor, the drift, so that all simulated turns together take the CPU time that the server used.  Who waits for
whom, and for how long, is left to the simulation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from archer.costs.pass_times import Fitted
from archer.costs.recording import MeasuredLoad, Recording
from archer.costs.service import percentile
from archer.planning.simulation import (
    EngineScheduler,
    Following,
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
    times = Fitted.to(recording.timed)
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
        slower = _slower(times, drift)
        first, after = clients(run.clients, len(run.waits), run.seconds)
        if not run.clients:
            first = [at for at in run.arrivals if at <= run.seconds]
        make = partial(EngineScheduler, recording.budget)
        ran = simulate(requests, first, make, slower, after=after)
        off = run.cpu / ran.busy if run.cpu and ran.busy else 1.0
        if abs(off - 1.0) < STEADY:
            break
    return ran, drift


def clients(
    count: int, requests: int, seconds: float = float("inf")
) -> tuple[Sequence[float], Following]:
    """N clients share a list of requests; each takes the next once it is answered, until `seconds`.

    Where there are none, nobody comes after an answer.
    """
    first = min(count, requests)
    waiting = iter(range(first, requests if count else 0))

    def after(number: int, now: float) -> tuple[float, int] | None:
        follows = next(waiting, None) if now <= seconds else None
        return None if follows is None else (now, follows)

    return [0.0] * first, after


def _slower(times: Fitted, by: float) -> Fitted:
    costs = {name: by * cost for name, cost in vars(times).items() if name != "error"}
    return replace(times, **costs)
