"""Nothing stays in the temporary folder, however the judge ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from archer.judge.folders import Folders, overfull

SCRIPT = """
import sys, time
from archer.judge import FunctionCheck, Judge
with Judge(workers=2, tier="B") as judge:
    print("ready", flush=True)
    judge.grade(FunctionCheck(sys.argv[1], "f", "assert f(1)"))
"""
BUSY = "import os, time\nos.makedirs('a/b')\nopen('a/b/c', 'w').write('x')\ntime.sleep(60)\n"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tiers A to C are for Linux")


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_a_judge_that_is_ended_leaves_no_folder_behind(tmp_path: Path, ending: int) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, BUSY], stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert len(list(tmp_path.iterdir())) == 1
        time.sleep(0.3)
        process.send_signal(ending)
        process.wait()
        deadline = time.monotonic() + 10
        while list(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert list(tmp_path.iterdir()) == []


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_program_that_ends_before_its_judge_leaves_no_folder_behind(tmp_path: Path) -> None:
    """The judge heard of its end, so the folder was the judge's to remove; then the judge was killed."""
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, BUSY], stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGSTOP)
        ended = [child for zygote in children(process.pid) for child in children(zygote)]
        assert ended
        for child in ended:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.3)
        process.kill()
        process.wait()
        deadline = time.monotonic() + 10
        while list(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert list(tmp_path.iterdir()) == []


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


def test_a_folder_that_goes_away_while_it_is_looked_at_is_no_fault(tmp_path: Path) -> None:
    assert not overfull(tmp_path / "gone")


def test_a_path_beyond_the_longest_counts_as_too_full(tmp_path: Path) -> None:
    home = Path.cwd()
    folders = Folders()
    folder = folders.make(None)
    try:
        os.chdir(folder)
        for _ in range(30):
            Path("x" * 200).mkdir()
            os.chdir("x" * 200)
        assert overfull(folder)
    finally:
        os.chdir(home)
        folders.close()
    assert not folders.base.exists()


def test_blocks_count_where_they_are_more_than_the_size(tmp_path: Path) -> None:
    for number in range(4096):
        (tmp_path / str(number)).symlink_to("x" * 100)
    assert not overfull(tmp_path)
    (tmp_path / "last").touch()
    assert overfull(tmp_path)
