"""The dials of a run."""

from __future__ import annotations

from dataclasses import dataclass

POOL = 1024
"""Sequences drawn together, sorted by length and cut into batches."""


@dataclass(frozen=True)
class Recipe:
    """The dials of a run."""

    model: str = "pocket"
    """Which of the variants is trained."""
    seed: int = 0
    rate: float = 3e-3
    """Peak learning rate."""
    warmup: int = 200
    """Steps until the peak is reached."""
    cooldown: float = 0.35
    """Share of the minutes at the end in which the rate falls to almost nothing."""
    easy_until: float = 0.3
    """Share of the minutes in which easy problems are preferred, less and less."""
    long_from: float = 0.68
    """Share of the minutes after which long prompts are mixed in."""
    long_share: float = 0.5
    """Share of the rows that are long from then on."""
    pool: int = POOL
    """Sequences drawn together; a quarter of it where long prompts are among them."""
    save_every: float = 2.0
    """Minutes between checkpoints."""
    watch_every: float = 15.0
    """Minutes between measurements of Pass@1 on dev problems; 0 never measures."""
    watched: int = 60
    compiled: bool = False
    """Compile the pass; a quarter faster, but it needs a C++ compiler."""
    workers: int = 1
    """Processes that train side by side on pools of their own; their weights are averaged each round."""
    round_pools: int = 8
    """Pools of each process in a round, where there are several."""
