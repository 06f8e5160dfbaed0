"""Runs on Ray clusters of this machine: the same results, losses told, other models refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from archer.cli import main
from archer.errors import BadRequest
from archer.loading.source import Source
from archer.methods.build import Choice
from archer.model import Model
from archer.runs.evaluation import evaluate
from archer.runs.executors.dispatch import Dispatcher
from archer.runs.executors.on_ray import Actor, RayPool
from archer.runs.executors.worker import Item, Order
from archer.runs.folder import MANIFEST
from archer.runs.manifest import model_identity
from runs.clusters import CORES, ENVIRONMENT, cluster, pids
from runs.toy import Disturbed, Toy, derived, order_of, results, toy_request, untimed
from support.processes import ran, running


@pytest.fixture(scope="module")
def pool() -> Iterator[RayPool]:
    with cluster() as opened:
        yield opened


def kill_all(worker: int) -> None:
    """Whoever works."""
    for pid in pids("ray::Actor", below=os.getpid()):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_cluster_makes_the_same_run_although_its_workers_are_killed(
    pool: RayPool, model: Model, unbroken: Path, tmp_path: Path
) -> None:
    bare = Model.outline(Source(model.folder.path, device="cpu", dtype="float32"))
    heard = Disturbed(2, kill_all)
    with Dispatcher(pool, order_of(model), CORES) as executor:
        request = toy_request(bare, device="cpu")
        evaluate(request, tmp_path / "run", heard, executor=executor)
    assert results(tmp_path / "run") == results(unbroken)
    assert derived(tmp_path / "run") == derived(unbroken)
    described = json.loads((tmp_path / "run" / MANIFEST).read_text())["circumstances"]["executor"]
    assert described == {"kind": "ray", "workers": CORES}
    assert len(heard.samples) == Toy.size
    assert heard.lines
    for line in heard.lines:
        assert "was lost (its process or machine ended, ActorDiedError)" in line


@pytest.mark.slow
def test_the_command_on_a_cluster(
    pool: RayPool,
    model: Model,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`--ray local`, on the cluster of these tests, because a process can have one only."""
    monkeypatch.setattr(RayPool, "_connect", lambda *_: None)
    monkeypatch.setattr(RayPool, "leave", lambda _: None)
    asked = ["eval", "pocket", "--limit", "3", "--length", "16", "--json"]
    assert main([*asked, "--out", str(tmp_path / "here")]) == 0
    here = untimed(json.loads(capsys.readouterr().out))
    out = ["--out", str(tmp_path / "there")]
    assert main([*asked, *out, "--ray", "local", "--workers", "1"]) == 0
    assert untimed(json.loads(capsys.readouterr().out)) == here
    assert results(tmp_path / "there") == results(tmp_path / "here")
    assert main([*asked, *out, "--ray", " "]) == 2
    assert "--ray takes auto, local or the address" in capsys.readouterr().err


def test_an_actor_sends_sentences_instead_of_errors(model: Model) -> None:
    """What runs inside Ray, called here."""
    actor = Actor()
    gone = order_of(model).to_dict()
    gone["source"]["model"] = "no/such/folder/here"
    assert "There is no folder" in actor.open(gone)["refused"]
    expected = model_identity(model)
    other = expected | {"files": {**expected["files"], "config.json": "0"}}
    said = actor.open(Order(order_of(model).source, other).to_dict())["refused"]
    assert "A worker has another model than the run (files.config.json" in said
    assert actor.open(Order(order_of(model).source, expected).to_dict()) == {}
    item = Item("a", "a", (5, 6), Choice("llada-confidence", {"length": 4}))
    assert actor.complete(asdict(item))["record"]["id"] == "a"
    long = replace(item, choice=Choice("llada-confidence", {"length": 10**5}))
    assert "positions" in actor.complete(asdict(long))["refused"]


def test_no_cluster_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """In tests a cluster is connected already, and a process can have one only."""

    def refuse(*_: Any, **__: Any) -> None:
        raise ConnectionError("Could not find any running Ray instance.\nMore about it.")

    pytest.importorskip("ray")
    monkeypatch.setattr("ray.init", refuse)
    with pytest.raises(BadRequest, match=r"at 'auto' \(Could not find any running Ray instance\)"):
        RayPool("auto", cores=1)


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
