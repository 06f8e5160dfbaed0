"""Temporaries of a pass are not mapped anew each time."""

import os
import platform
import sys

import pytest

from support.processes import ran

PASSES = """
import resource
import archer.model
from archer.engine.engine import Engine
if not {keep}:
    archer.model.keep_freed_memory = lambda: None
model = archer.model.load("pocket", device="cpu", dtype="float32", threads=1)
engine = Engine(model, budget=2048)
for length in (32, 40, 48, 56, 64, 72):
    engine.submit("count the numbers " * 40, "saber", length=length)
for _ in range(4):
    engine.turn()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(12):
    engine.turn()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(keep: bool) -> int:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    return int(ran(sys.executable, "-c", PASSES.format(keep=keep), env=environment).stdout)


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is about glibc's heap")
def test_passes_stop_mapping_their_memory_anew() -> None:
    assert faults(keep=True) * 5 < faults(keep=False)
