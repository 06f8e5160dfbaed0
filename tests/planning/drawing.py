"""Drawn requests, ways and costs for tests of the simulation."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from archer.costs.pass_times import Fitted
from archer.costs.workload import Share, Trajectory, even
from archer.planning.simulation import SimulatedRequest
from archer.planning.ways import ByEngine, InBatches, Way, oldest_first, shortest_first

COSTS = Fitted(per_turn=2**-6, per_row=2**-8, per_column=2**-12, per_pair=2**-20, per_scored=2**-14)
"""Powers of two: sums of them are exact in any order."""


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
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
        Share(0, 0, 0) if again and index else share
        for index, (share, again) in enumerate(zip(made.shares, reused, strict=True))
    )
    return Trajectory(made.prompt, made.length, shares, made.masks)


requests = st.lists(
    st.builds(SimulatedRequest, trajectories(), bytes=st.integers(0, 40)), min_size=1, max_size=14
)
ways: st.SearchStrategy[Callable[[], Way]] = st.sampled_from(
    [
        lambda: ByEngine(1),
        lambda: ByEngine(64),
        lambda: ByEngine(64, memory=50),
        lambda: ByEngine(200, order=oldest_first),
        lambda: ByEngine(200, order=shortest_first),
        lambda: ByEngine(1 << 40),
        lambda: InBatches(1),
        lambda: InBatches(3),
    ]
)
