"""Nothing stays and nothing accumulates, however the judge ends: folders, processes, descriptors, memory."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from archer.judge import Check, FunctionCheck, Judge, Limits, StdinCheck, Tier, zygote_process
from archer.judge.inside.folders import Folders
from archer.judge.program_run import overfull
from conftest import let_everybody_through
from support.processes import PATIENCE, alive, children, descendants, descriptors, running

SCRIPT = """
import sys, time
from archer.judge import FunctionCheck, Judge
with Judge(workers=2, tier="B") as judge:
    print("ready", flush=True)
    judge.grade(FunctionCheck(sys.argv[1], "f", "assert f(1)"))
"""
BUSY = "import os, time\nos.makedirs('a/b')\nopen('a/b/c', 'w').write('x')\ntime.sleep(60)\n"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tiers A and B are for Linux")


@pytest.mark.thinned(3)
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_a_judge_that_is_ended_leaves_no_folder_behind(tmp_path: Path, ending: int) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with running(
        [sys.executable, "-c", SCRIPT, BUSY], stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        assert list(tmp_path.iterdir())
        time.sleep(0.3)
        process.send_signal(ending)
        process.wait(PATIENCE)
        assert_nothing_stays(tmp_path)


def assert_nothing_stays(folder: Path) -> None:
    deadline = time.monotonic() + 10
    while list(folder.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(folder.iterdir()) == []


AT_AN_ORDER = """
import os, signal, socket, sys
from archer.judge import FunctionCheck, Judge
moment, number = sys.argv[1], int(sys.argv[2])
send, orders = socket.send_fds, []
def sent_last(*order):
    orders.append(order)
    last = len(orders) == number
    if last and moment == "before":
        os.kill(os.getpid(), signal.SIGTERM)
    send(*order)
    if last:
        os.kill(os.getpid(), signal.SIGTERM)
socket.send_fds = sent_last
with Judge(workers=2, tier="B") as judge:
    while True:
        judge.grade(FunctionCheck("open('a', 'w')", "f", "assert f(1)"))
"""


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", [1, 3, 9])
def test_a_judge_that_is_ended_while_it_orders_a_sandbox_leaves_no_folder(
    tmp_path: Path, moment: str, number: int
) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", AT_AN_ORDER, moment, str(number)]
    done = subprocess.run(
        command, env=environment, capture_output=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == -signal.SIGTERM, done.stderr
    assert_nothing_stays(tmp_path)


def end_at(seconds: float, folder: Path) -> None:
    """Ends a judge so long after its start, wherever it may be, and looks at what is left."""
    environment = os.environ | {"TMPDIR": str(folder)}
    command = [sys.executable, "-c", SCRIPT, BUSY]
    with running(command, stdout=subprocess.DEVNULL, env=environment):
        time.sleep(seconds)
    assert_nothing_stays(folder)


@pytest.mark.parametrize(
    ("moments", "first", "apart"),
    [(6, 0.15, 0.1), pytest.param(60, 0.0, 0.02, marks=pytest.mark.slow)],
)
def test_a_judge_that_is_ended_at_any_moment_leaves_no_folder(
    tmp_path: Path, moments: int, first: float, apart: float
) -> None:
    for moment in range(moments):
        end_at(first + apart * moment, tmp_path)


def sandboxes(judge: int) -> list[int]:
    """Processes that the judge's zygotes have started; waits until there is one."""
    deadline = time.monotonic() + PATIENCE
    while True:
        below = [child for zygote in children(judge) for child in children(zygote)]
        if below:
            return below
        assert time.monotonic() < deadline, "no program was started"
        time.sleep(0.01)


def test_a_program_that_ends_before_its_judge_leaves_no_folder_behind(tmp_path: Path) -> None:
    """The judge heard of its end, so the folder was the judge's to remove; then the judge was killed."""
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with running(
        [sys.executable, "-c", SCRIPT, BUSY], stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        ended = sandboxes(process.pid)
        process.send_signal(signal.SIGSTOP)
        for child in ended:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        time.sleep(0.3)
    assert_nothing_stays(tmp_path)


def test_a_folder_that_cannot_be_looked_into_counts_as_too_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not overfull(tmp_path)
    (tmp_path / "a").mkdir()
    assert not overfull(tmp_path)
    real = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("a"):
            raise PermissionError
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert overfull(tmp_path)


def test_a_path_beyond_the_longest_counts_as_too_full(tmp_path: Path) -> None:
    home = Path.cwd()
    base = tmp_path / "base"
    folders = Folders(str(base), None)
    folder = Path(folders.make())
    try:
        os.chdir(folder)
        for _ in range(30):
            Path("x" * 200).mkdir()
            os.chdir("x" * 200)
        assert overfull(folder)
    finally:
        os.chdir(home)
        folders.close()
    assert not base.exists()


def test_blocks_count_where_they_are_more_than_the_size(tmp_path: Path) -> None:
    for number in range(4096):
        (tmp_path / str(number)).symlink_to("x" * 100)
    assert not overfull(tmp_path)
    (tmp_path / "last").touch()
    assert overfull(tmp_path)


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


class OwnProcesses:
    """Those that a judge has started, and none that others have: zygotes, and whatever comes from them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._zygotes: list[int] = []
        start = zygote_process._start

        def noted(*arguments: Any) -> Any:
            made = start(*arguments)
            self._zygotes.append(made.pid)
            return made

        monkeypatch.setattr(zygote_process, "_start", noted)

    def alive(self) -> list[int]:
        there = [pid for pid in self._zygotes if alive(pid)]
        return there + [each for pid in there for each in descendants(pid)]


def soak(tier: Tier, count: int, own: OwnProcesses) -> None:
    outcomes = {"pass", "fail", "crash", "timeout"}
    mounts = Path("/proc/self/mountinfo").read_text()
    with Judge(workers=2, tier=tier) as judge:
        assert {v.outcome for _, v in judge.grade_many(mixture(30))} == outcomes
        processes = len(own.alive())
        handles = descriptors()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = [v.outcome for _, v in judge.grade_many(mixture(count))]
        assert len(found) == count
        assert set(found) == outcomes
        last = own.alive()
        assert processes > 2, "zygotes and children were counted"
        assert abs(len(last) - processes) <= 4
        assert abs(descriptors() - handles) <= 20
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 8 * 1024
    deadline = time.monotonic() + PATIENCE
    while any(map(alive, last)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [pid for pid in last if alive(pid)] == own.alive() == []
    assert Path("/proc/self/mountinfo").read_text() == mounts


@pytest.mark.parametrize("count", [100, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("tier", ["A", "B"])
def test_nothing_accumulates(
    tier: Tier, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_everybody_through(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = descriptors()
    soak(tier, count, OwnProcesses(monkeypatch))
    assert list(tmp_path.iterdir()) == []
    assert descriptors() <= before, "what others had open may have been closed meanwhile"


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


RUBBISH = {
    "side by side": "for n in range(300): os.mkdir(str(n))",
    "one in another": "for n in range(150): os.mkdir('d'); os.chdir('d')",
    "without rights": "for n in range(150): os.mkdir(str(n), 0)",
    "files in folders": (
        "for n in range(10):\n    os.mkdir(str(n))\n"
        "    for m in range(20): open(f'{n}/{m}', 'w').close()"
    ),
}


@pytest.mark.thinned(4)
@pytest.mark.parametrize("check", ["function", "stdin"])
@pytest.mark.parametrize("rubbish", RUBBISH)
def test_what_a_program_leaves_is_removed_before_its_own_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rubbish: str, check: str
) -> None:
    """So that no other program waits for it: a zygote that removes folders starts nobody."""
    let_everybody_through(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    source = f"import os\n{RUBBISH[rubbish]}\n"
    made: Check = (
        FunctionCheck(source + "def f(x): return x", "f", "assert f(1) == 1")
        if check == "function"
        else StdinCheck(source, (("", ""),))
    )
    with Judge(workers=1, tier="B") as judge:
        verdict = judge.grade(made)
        assert verdict.outcome in ("pass", "fail", "timeout"), verdict
        left: list[Path] = []
        for base in tmp_path.iterdir():
            base.chmod(0o711)
            left += base.rglob("*/*")
        assert left == [], "the folders that are there are empty ones of programs to come"
        assert judge.grade(MIXTURE[0]).outcome == "pass"
