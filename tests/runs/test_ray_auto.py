"""`--ray auto`: a cluster that runs already is found and used."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runs.clusters import CORES, ENVIRONMENT
from runs.toy import results, untimed
from support.processes import ran, running

ASKED = ("eval", "pocket", "--limit", "4", "--length", "16", "--json")
STARTS_WITHIN = 120.0


@pytest.fixture
def environment_of_cluster() -> Iterator[dict[str, str]]:
    """A cluster on loopback, as `ray start` starts it; what a process needs to find it.

    In a folder of its own with a short name, so that neither other clusters of this machine nor the length
    of a socket's path matter.
    """
    pytest.importorskip("ray")
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    environment = os.environ | ENVIRONMENT | {"RAY_TMPDIR": folder}
    options = ("--node-ip-address", "127.0.0.1", "--port", "0", "--num-cpus", str(CORES))
    quiet = ("--include-dashboard", "false", "--disable-usage-stats", "--block")
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", *options, *quiet]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        with running(command, env=environment, text=True, **pipes) as head:
            _until_started(head, Path(folder))
            yield environment
            head.send_signal(signal.SIGTERM)
            head.communicate(timeout=60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _until_started(head: subprocess.Popen[str], folder: Path) -> None:
    last = time.monotonic() + STARTS_WITHIN
    while not (folder / "ray" / "ray_current_cluster").exists():
        assert head.poll() is None, head.communicate()[0]
        if time.monotonic() > last:
            pytest.skip(f"the cluster did not start within {STARTS_WITHIN:.0f} s")
        time.sleep(0.2)


@pytest.mark.slow
def test_a_cluster_that_runs_is_found(
    environment_of_cluster: dict[str, str], tmp_path: Path
) -> None:
    found = {}
    for name, more in (("here", ()), ("there", ("--ray", "auto", "--workers", "2"))):
        command = [sys.executable, "-m", "archer", *ASKED, "--out", str(tmp_path / name), *more]
        ended = ran(*command, env=environment_of_cluster, timeout=300)
        found[name] = untimed(json.loads(ended.stdout))
    assert found["there"] == found["here"]
    assert results(tmp_path / "there") == results(tmp_path / "here")
    manifest = json.loads((tmp_path / "there" / "manifest.json").read_text())
    assert manifest["circumstances"]["executor"] == {"kind": "ray", "workers": 2}
