"""Runs on a Ray cluster of this machine: the same results, losses told, other models refused."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from archer.cli import main
from archer.errors import BadRequest
from archer.loading.source import Source
from archer.model import Model
from archer.runs.evaluation import evaluate
from archer.runs.executors.dispatch import Dispatcher
from archer.runs.executors.on_ray import Actor, RayPool
from archer.runs.executors.worker import Item, Order
from archer.runs.folder import MANIFEST
from archer.runs.manifest import model_identity
from runs.clusters import CORES, cluster, pids
from runs.toy import Disturbed, Toy, derived, order_of, results, toy_request, untimed


@pytest.fixture(scope="module")
def pool() -> Iterator[RayPool]:
    with cluster() as opened:
        yield opened


def kill_all(worker: int) -> None:
    """Whoever works."""
    for pid in pids("ray::Actor", below=os.getpid()):
        os.kill(pid, signal.SIGKILL)


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
    gone = order_of(model).as_dict()
    gone["source"]["model"] = "no/such/folder/here"
    assert "There is no folder" in actor.open(gone)["refused"]
    expected = model_identity(model)
    other = expected | {"files": {**expected["files"], "config.json": "0"}}
    said = actor.open(Order(order_of(model).source, other).as_dict())["refused"]
    assert "A worker has another model than the run (files.config.json" in said
    assert actor.open(Order(order_of(model).source, expected).as_dict()) == {}
    item = Item("a", "a", (5, 6), "llada-confidence", {"length": 4}, None, 0)
    assert actor.complete(asdict(item))["record"]["id"] == "a"
    long = replace(item, settings={"length": 10**5})
    assert "positions" in actor.complete(asdict(long))["refused"]


def test_no_cluster_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """In tests a cluster is connected already, and a process can have one only."""

    def refuse(*_: Any, **__: Any) -> None:
        raise ConnectionError("Could not find any running Ray instance.\nMore about it.")

    pytest.importorskip("ray")
    monkeypatch.setattr("ray.init", refuse)
    with pytest.raises(BadRequest, match=r"at 'auto' \(Could not find any running Ray instance\)"):
        RayPool("auto", cores=1)
