"""A Ray cluster on this machine for tests, and the processes of its workers."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from archer.errors import BadRequest
from archer.runs.executors.on_ray import LOCAL, QUIET, RayPool
from support.processes import descendants

CORES = 2
ENVIRONMENT = {**QUIET, "RAY_AUTH_MODE": "disabled", "RAY_worker_niceness": "0"}
"""Nothing is written into the home folder or reported, and workers get their share of a busy machine."""


@contextmanager
def cluster() -> Iterator[RayPool]:
    """One that ends with the tests; starting it takes most of their time."""
    pytest.importorskip("ray")
    before = dict(os.environ)
    os.environ.update(ENVIRONMENT)
    try:
        pool = _opened()
        try:
            yield pool
        finally:
            pool.leave()
    finally:
        os.environ.clear()
        os.environ.update(before)


def _opened() -> RayPool:
    """A second try, then the tests are skipped: on a busy machine a node may not start in Ray's time."""
    try:
        return RayPool(LOCAL, cores=CORES)
    except BadRequest:
        try:
            return RayPool(LOCAL, cores=CORES)
        except BadRequest as error:
            pytest.skip(f"no Ray node could be started here: {error}")


def pids(phrase: str, below: int | None = None) -> list[int]:
    """Processes whose command line has a phrase in it; all of this machine, or descendants of one."""
    everyone = (int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit())
    found = []
    for pid in everyone if below is None else descendants(below):
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            if phrase in command:
                found.append(pid)
    return found
