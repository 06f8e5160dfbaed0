"""How many processor threads a network is worth.

Threads wait for each other many times in a pass.  A tiny network computes for microseconds between two
waits, so a second thread gains little on an idle machine, and on a busy one the first waits for whole time
slices of the scheduler.  It changes torch's number of threads only while it is asked to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import torch

WORTH_A_THREAD: Final = 20_000_000
"""Parameters per thread: with 256 tokens a thread then computes for milliseconds between two waits, about
as long as a time slice of the scheduler."""
VARIABLES: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Where users say how many threads they want; what they say stands."""


def fitting(parameters: int, environment: Mapping[str, str] = os.environ) -> int:
    """Threads for a network of this size: at least 1, at most what torch has, or what the user said."""
    available = torch.get_num_threads()
    if any(environment.get(name) for name in VARIABLES):
        return available
    return max(1, min(available, parameters // WORTH_A_THREAD))


@contextmanager
def computing(threads: int | None) -> Iterator[None]:
    """So many threads inside, as many as before behind; None changes nothing."""
    if threads is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
