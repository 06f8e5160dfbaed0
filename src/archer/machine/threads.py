"""How many processor threads a network is worth.

Threads wait for each other many times in a pass.  A tiny network computes for microseconds between two
waits, so a second thread gains little on an idle machine, and on a busy one the first waits for whole time
slices of the scheduler.  It changes torch's number of threads only while it is asked to.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import torch

from archer.errors import BadRequest

WORTH_A_THREAD: Final = 20_000_000
"""Parameters per thread: with 256 tokens a thread then computes for milliseconds between two waits, about
as long as a time slice of the scheduler."""
MOST_THREADS: Final = 512
"""Far more than help; the libraries below end the process when they get many times as many."""
VARIABLES: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Where users say how many threads they want; what they say stands."""


def check_threads(count: int, name: str = "threads") -> None:
    """Refuse a number of threads that would end the process."""
    if type(count) is not int or not 1 <= count <= MOST_THREADS:
        raise BadRequest(f"{name} must be a whole number from 1 to {MOST_THREADS}, not {count}.")


def fitting(parameters: int, shards: int = 1, environment: Mapping[str, str] = os.environ) -> int:
    """Threads for a network of this size, or what the user said; shards on this machine share them."""
    available = torch.get_num_threads()
    if any(environment.get(name) for name in VARIABLES):
        return available
    return max(1, min(available // shards, parameters // shards // WORTH_A_THREAD))


@contextmanager
def computing(threads: int | None) -> Iterator[None]:
    """N threads inside, as many as before afterwards; None changes nothing.

    torch's number belongs to each thread, which takes it over when it first computes: a thread that does so
    while another one is in here keeps this number.  Have it call `torch.set_num_threads` if that matters.
    """
    if threads is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
