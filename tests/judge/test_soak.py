"""Nothing accumulates and nothing is left: processes, mounts, folders, descriptors, memory."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from archer.judge import Check, FunctionCheck, Judge, Limits, StdinCheck, Tier
from conftest import let_everybody_through
from support.processes import alive, descendants, descriptors, running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SOON = Limits(cpu_seconds=5, wall_seconds=0.2)
MIXTURE: tuple[Check, ...] = (
    FunctionCheck("def f(x): return x + 1", "f", "assert f(1) == 2"),
    FunctionCheck("import os\nos._exit(0)", "f", "assert f(1) == 2"),
    FunctionCheck("import os\nos.closerange(0, 99)", "f", "assert f(1) == 2"),
    FunctionCheck("open('a', 'w').write('x')\ndef f(x): return 0", "f", "assert f(1) == 2"),
    FunctionCheck("print('x' * 200000)\ndef f(x): yield x", "f", "assert list(f(1)) == [1]"),
    StdinCheck("print(input())", (("1", "1"), ("2", "2"))),
)
TIMEOUT = FunctionCheck("while True: pass", "f", "f(1)", limits=SOON)


def mixture(count: int) -> Iterator[Check]:
    yield TIMEOUT
    for number in range(count - 1):
        yield MIXTURE[number % len(MIXTURE)]


def soak(tier: Tier, count: int) -> None:
    outcomes = {"pass", "fail", "crash", "timeout"}
    mounts, before = Path("/proc/self/mountinfo").read_text(), descendants(os.getpid())
    with Judge(workers=2, tier=tier) as judge:
        assert {v.outcome for _, v in judge.grade_many(mixture(30))} == outcomes
        processes = len(descendants(os.getpid()))
        handles = descriptors()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = [v.outcome for _, v in judge.grade_many(mixture(count))]
        assert len(found) == count
        assert set(found) == outcomes
        assert abs(len(descendants(os.getpid())) - processes) <= 4
        assert abs(descriptors() - handles) <= 20
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 8 * 1024
    assert sorted(descendants(os.getpid())) == sorted(before)
    assert Path("/proc/self/mountinfo").read_text() == mounts


@pytest.mark.parametrize("tier", ["A", "B"])
def test_nothing_accumulates(tier: Tier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_everybody_through(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = descriptors()
    soak(tier, 100)
    assert list(tmp_path.iterdir()) == []
    assert descriptors() == before


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["A", "B"])
def test_nothing_accumulates_over_2000_programs(tier: Tier) -> None:
    soak(tier, 2000)


KILLED = """
import sys
from archer.judge import FunctionCheck, Judge, Limits
with Judge(workers=1, tier=sys.argv[1]) as judge:
    print("open", flush=True)
    judge.grade(FunctionCheck("while True: pass", "f", "f(1)"))
"""


@pytest.mark.parametrize("tier", ["A", "B"])
def test_a_killed_judge_takes_everything_along(tier: Tier, tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, tier]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    let_everybody_through(tmp_path)
    with running(command, stdout=subprocess.PIPE, env=environment) as judge:
        assert judge.stdout.readline() == b"open\n"
        time.sleep(0.3)
        started = descendants(judge.pid)
        assert len(started) >= 4
    deadline = time.monotonic() + 20
    while any(alive(pid) for pid in started):
        assert time.monotonic() < deadline
        time.sleep(0.05)
