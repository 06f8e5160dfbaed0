"""The cost model: what a trajectory should cost, from how many passes of which kind it made.

P prompt columns, G response columns; M updates, R of them with a full pass.
"""

from __future__ import annotations


def eta(prompt: int, response: int) -> float:
    """Cost of a cached pass as a part of a full one, when every row costs the same: G / (P + G)."""
    return response / (prompt + response)


def step_speedup(refreshed: float, ratio: float) -> float:
    """Speedup per update when a part `refreshed` of the passes is full and the others cost `ratio`."""
    return 1.0 / (refreshed + (1.0 - refreshed) * ratio)


def speedup(eager_updates: int, updates: int, full: int, ratio: float) -> float:
    """Speedup over an eager trajectory, from realised counts: fewer updates count as much as cheap ones."""
    return eager_updates / updates * step_speedup(full / updates, ratio)
