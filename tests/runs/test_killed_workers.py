"""kill -9 of workers and drivers at drawn moments: `archer eval` with processes and with a Ray cluster.

Every command is one that a user would give, on the bundled model.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random

import pytest

from archer.runs.folder import JOURNAL
from runs.clusters import ENVIRONMENT, pids
from runs.toy import derived
from support.processes import reported, running

WORKERS = {"processes": "archer.runs.executors.worker", "ray": "ray::Actor"}
OPTIONS = {"processes": ["--workers", "2"], "ray": ["--ray", "local", "--workers", "2"]}
LEFT = {"processes": ("archer.runs.executors.worker",), "ray": ("ray::Actor", "raylet/raylet")}
WORKER_KILLS, DRIVER_KILLS = 20, 5
PROBLEMS = 60
RUN_SECONDS = 600.0
GRACE = 20.0
"""Seconds in which what a killed driver started must have ended by itself."""


Derived = tuple[list[str], str]


def command(out: Path, problems: int, options: list[str]) -> list[str]:
    script = "import sys; from archer.cli import main; sys.exit(main(sys.argv[1:]))"
    settings = ["--length", "32", "--out", str(out), "--limit", str(problems)]
    return [sys.executable, "-c", script, "eval", "pocket", *settings, *options]


def started(
    out: Path, problems: int, options: list[str]
) -> AbstractContextManager[subprocess.Popen[str]]:
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return running(
        command(out, problems, options), env=os.environ | ENVIRONMENT, text=True, **pipes
    )


def finished(out: Path, problems: int, options: list[str]) -> str:
    with started(out, problems, options) as process:
        _, said = process.communicate(timeout=RUN_SECONDS)
    skip_without_node(said)
    assert process.returncode == 0, said
    return said


def skip_without_node(said: str) -> None:
    """On a busy machine a node may not start in the time that Ray gives it."""
    if "There is no Ray cluster to use" in said:
        pytest.skip(said)


def recorded(out: Path) -> int:
    try:
        return (out / JOURNAL).read_bytes().count(b'"event":"sample"')
    except FileNotFoundError:
        return 0


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Derived:
    """The same run by this process alone."""
    out = tmp_path_factory.mktemp("alone") / "run"
    finished(out, PROBLEMS, [])
    return derived(out)


def with_killed_workers(kind: str, out: Path, problems: int, kills: int, rng: Random) -> int:
    """Kill drawn workers of one run at drawn moments, loading ones as well; how many were killed in it.

    Between two kills something is done, for a run on which nothing is ever done rightly ends.
    """
    killed = known = 0
    with started(out, problems, OPTIONS[kind]) as process:
        while killed < kills and process.poll() is None:
            time.sleep(rng.uniform(0.05, 2.0))
            there = pids(WORKERS[kind], below=process.pid)
            if there and recorded(out) > known:
                known = recorded(out)
                try:
                    os.kill(rng.choice(there), signal.SIGKILL)
                except ProcessLookupError:
                    continue
                killed += 1
        _, said = process.communicate(timeout=RUN_SECONDS)
    skip_without_node(said)
    assert process.returncode == 0, said
    assert said.count("was lost") <= killed
    return killed


@pytest.mark.slow
@pytest.mark.parametrize("kind", WORKERS)
def test_runs_survive_killed_workers(kind: str, tmp_path: Path, expected: Derived) -> None:
    rng, killed = Random(16), 0
    for number in range(WORKER_KILLS):
        out = tmp_path / str(number)
        killed += with_killed_workers(kind, out, PROBLEMS, WORKER_KILLS - killed, rng)
        assert derived(out) == expected
        if killed == WORKER_KILLS:
            break
    assert killed == WORKER_KILLS


@pytest.mark.slow
@pytest.mark.parametrize("kind", WORKERS)
def test_runs_survive_killed_drivers(kind: str, tmp_path: Path, expected: Derived) -> None:
    """Also that nothing a killed driver started is left."""
    rng = Random(61)
    out = tmp_path / "run"
    before = {phrase: set(pids(phrase)) for phrase in LEFT[kind]}
    for kill in range(DRIVER_KILLS):
        with started(out, PROBLEMS, OPTIONS[kind]) as process:
            goal = recorded(out) + rng.randrange(0, 8) if kill else 0
            while process.poll() is None and (
                not pids(WORKERS[kind], below=process.pid) or recorded(out) < goal
            ):
                time.sleep(0.02)
            time.sleep(rng.uniform(0, 0.5))
        assert process.returncode == -signal.SIGKILL
        last = time.monotonic() + GRACE
        while any(set(pids(phrase)) - before[phrase] for phrase in LEFT[kind]):
            assert time.monotonic() < last, "a worker outlived its driver"
            time.sleep(0.1)
    finished(out, PROBLEMS, OPTIONS[kind])
    assert derived(out) == expected


@pytest.mark.slow
def test_the_bundled_model_on_a_local_cluster(tmp_path: Path, expected: Derived) -> None:
    """As in docs/devices.md: the samples and the summary of one process."""
    out = tmp_path / "run"
    finished(out, PROBLEMS, ["--ray", "local"])
    assert derived(out) == expected


@pytest.mark.slow
@pytest.mark.parametrize(("kills", "seed"), [(2, 1), (150, 2)])
def test_runs_survive_kills(tmp_path: Path, kills: int, seed: int) -> None:
    """With those of workers and drivers above, by processes and on a cluster, 200 drawn moments."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    report = reported("runs.killing", tmp_path, kills, seed, TMPDIR=str(temporary))
    assert report["finished"] is True
    assert report["same"] == report["kills"] == kills
    assert report["cut"] >= kills // 2, "most kills must come before the end to mean anything"
    assert report["left"] == 0
    assert list(temporary.iterdir()) == []
