"""Drawn requests and costs for tests of the simulation, and schedulers to hold the engine's against."""

from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st

from archer.costs.pass_times import Fitted
from archer.costs.workload import PassShare, Workload, even
from archer.engine.schedule import Offer
from archer.planning.simulation import (
    ActiveRequest,
    EngineScheduler,
    SimulatedRequest,
    SimulatedTurn,
)

COSTS = Fitted(per_turn=2**-6, per_row=2**-8, per_column=2**-12, per_pair=2**-20, per_scored=2**-14)
"""Powers of two: sums of them are exact in any order."""


class OldestFirst(EngineScheduler):
    """With equal work left, the response ratio is the time waited."""

    def offer(self, request: ActiveRequest, now: float) -> Offer[ActiveRequest]:
        return replace(super().offer(request, now), left=1.0)


class ShortestFirst(EngineScheduler):
    """With equal waiting, the response ratio is one over the work left."""

    def offer(self, request: ActiveRequest, now: float) -> Offer[ActiveRequest]:
        return replace(super().offer(request, now), waited=1.0, passed_over=0)


class InBatches(EngineScheduler):
    """Whoever waited longest, with up to `together` of the same length; the batch is answered as a whole."""

    def __init__(self, together: int) -> None:
        super().__init__(budget=1)
        self._together = together
        self._batch: list[ActiveRequest] = []

    def turn(self, now: float) -> SimulatedTurn | None:
        if not self._batch and self._waiting:
            length = self._waiting[0].trajectory.length
            alike = [each for each in self._waiting if each.trajectory.length == length]
            self._batch = alike[: self._together]
            self._waiting = [each for each in self._waiting if each not in self._batch]
        going = [request for request in self._batch if not request.done]
        if not going:
            return None
        shares = tuple(request.advance() for request in going)
        if not all(request.done for request in self._batch):
            return SimulatedTurn(shares, ())
        finished, self._batch = tuple(self._batch), []
        return SimulatedTurn(shares, finished)


@st.composite
def trajectories(draw: st.DrawFn) -> Workload:
    """Evenly spread, some of them with updates that reuse their logits."""
    updates = draw(st.integers(1, 12))
    made = even(
        draw(st.integers(1, 80)),
        draw(st.sampled_from((4, 8, 16))),
        updates,
        draw(st.integers(1, updates)),
    )
    reused = draw(st.lists(st.booleans(), min_size=updates, max_size=updates))
    shares = tuple(
        PassShare(0, 0, 0) if again and index else share
        for index, (share, again) in enumerate(zip(made.shares, reused, strict=True))
    )
    return replace(made, shares=shares)


requests = st.lists(
    st.builds(SimulatedRequest, trajectories(), bytes=st.integers(0, 40)), min_size=1, max_size=14
)
schedulers: st.SearchStrategy[Callable[[], EngineScheduler]] = st.sampled_from(
    [
        lambda: EngineScheduler(1),
        lambda: EngineScheduler(64),
        lambda: EngineScheduler(64, memory=50),
        lambda: OldestFirst(200),
        lambda: ShortestFirst(200),
        lambda: EngineScheduler(1 << 40),
        lambda: InBatches(1),
        lambda: InBatches(3),
    ]
)
