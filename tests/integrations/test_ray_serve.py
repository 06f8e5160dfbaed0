"""Replicas under Ray Serve: settings and manifests as they stand, then a cluster of this machine."""

import asyncio
import os
import signal
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import archer
from archer.errors import BadRequest
from conftest import REPOSITORY
from runs.clusters import ENVIRONMENT, pids
from server.contract import LENGTH, MESSAGES, PROMPT, check, check_async
from server.running import on_a_thread, until

PORT = 8712
URL = f"http://127.0.0.1:{PORT}"
ASKED: dict[str, Any] = {"model": "pocket", "messages": MESSAGES, "max_tokens": LENGTH}
SLOW: dict[str, Any] = {"archer": {"method": "llada-confidence"}}
REPLICA = "ray::ServeReplica"


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """Ray Serve's own use of pydantic is out of date, which is said once, when it is imported."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Using extra keyword arguments on `Field`")
        pytest.importorskip("ray.serve")


def settings(**fields: Any) -> Any:
    from archer.integrations.ray_serve import RaySettings

    return RaySettings.model_validate(fields)


def test_settings_become_those_of_the_server() -> None:
    found = settings(memory=2, queue=3, replicas="2", page=False)
    assert found.memory_bytes == 2 << 30
    assert found.queue == 3
    assert not found.page
    options = found.options()
    assert options["num_replicas"] == 2
    assert options["max_ongoing_requests"] > found.queue, "the engine refuses, not the router"
    assert options["ray_actor_options"] == {"num_cpus": 1, "num_gpus": 0}


def test_replicas_may_grow_and_have_cards() -> None:
    options = settings(replicas=2, max_replicas=5, target=3, device="cuda").options()
    assert options["autoscaling_config"] == {
        "min_replicas": 2,
        "max_replicas": 5,
        "target_ongoing_requests": 3.0,
    }
    assert options["num_replicas"] is None
    assert options["ray_actor_options"]["num_gpus"] == 1


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"replica": 2}, "Extra inputs are not permitted"),
    ({"replicas": 0}, "greater than or equal to 1"),
    ({"replicas": 3, "max_replicas": 2}, "max_replicas is 2 and replicas, the least, is 3"),
    ({"replicas": 2, "allow_weight_updates": "."}, "reaches one replica"),
    ({"max_replicas": 2, "allow_weight_updates": "."}, "reaches one replica"),
    ({"queue": 0}, "greater than or equal to 1"),
    ({"memory": float("inf")}, "finite number"),
    ({"memory": 1e300}, "less than or equal to"),
    ({"timeout": float("inf")}, "finite number"),
    ({"queue_timeout": float("nan")}, "finite number"),
    ({"drain": 1e10}, "less than or equal to"),
    ({"target": float("inf")}, "finite number"),
    ({"threads": 100_000}, "threads must be a whole number from 1 to 512"),
    ({"dtype": "float8"}, "There is no dtype 'float8' here. Did you mean 'float64'"),
    ({"device": "cuda:1"}, "write cuda, not cuda:1"),
    ({"quantize": "int4"}, "There is no quantisation 'int4' here"),
    ({"shards": 2}, "cannot be divided over shards"),
]


def test_options_are_the_same_wherever_they_are_written() -> None:
    """On the command line and in a configuration file: names and defaults agree."""
    from archer.cli.options import ModelOptions
    from archer.cli.serve import LimitOptions
    from archer.integrations.ray_serve import RaySettings
    from archer.loading.source import Source

    here = {name: field.default for name, field in RaySettings.model_fields.items()}
    here_alone = {"replicas", "max_replicas", "target", "page", "preset", "api_key_file"}
    here_alone |= {"without_key", "method", "served_model_name", "cors_origin", "ignore"}
    here_alone |= {"allow_own_code", "allow_weight_updates"}
    there = {each.name: each.default for each in fields(LimitOptions)}
    assert here.pop("source") == Source(ModelOptions().model)
    assert here.keys() - here_alone == there.keys()
    for name in here.keys() - here_alone:
        assert here[name] == there[name], name


@pytest.mark.parametrize(("fields", "phrase"), WRONG, ids=str)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], phrase: str) -> None:
    with pytest.raises(ValidationError, match=phrase):
        settings(**fields)


def test_a_key_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="cannot be read"):
        settings(api_key_file=str(tmp_path / "gone")).hosted()


def test_replicas_load_as_models_are_loaded_elsewhere() -> None:
    """Every field of a source is taken, and it arrives at a replica as it was given."""
    from archer.integrations.ray_serve import RaySettings

    given = settings(
        model="x/y", revision="abc", dtype="bf16", quantize="int8", threads="2", compiled=True
    )
    assert (given.source.name, given.source.threads, given.source.compiled) == ("x/y", 2, True)
    assert RaySettings.model_validate(given.model_dump(mode="json")) == given


def test_the_application_is_bound_without_a_cluster() -> None:
    from ray.serve import Application

    from archer.integrations.ray_serve import app

    assert isinstance(app({"model": "pocket", "replicas": "2"}), Application)


def test_a_replica_opens_its_model_and_is_well() -> None:
    """What Ray calls, called here."""
    from archer.integrations.ray_serve import Replica

    replica = Replica({"model": "pocket", "device": "cpu", "dtype": "float32"})

    async def lives() -> None:
        hosted = await replica.__serve_build_asgi_app__()
        replica.check_health()
        await hosted.close()

    on_a_thread(lambda: asyncio.run(lives()))
    with pytest.raises(archer.ArcherError, match="does not run"):
        replica.check_health()


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Group(Strict):
    """What KubeRay's v1 has for the pods of a kind; the pods themselves are Kubernetes' own."""

    start: dict[str, str] = Field(alias="rayStartParams")
    template: dict[str, Any]


class Workers(Group):
    name: str = Field(alias="groupName")
    replicas: int
    least: int = Field(alias="minReplicas")
    most: int = Field(alias="maxReplicas")


class Cluster(Strict):
    version: str = Field(alias="rayVersion")
    grows: bool = Field(alias="enableInTreeAutoscaling")
    head: Group = Field(alias="headGroupSpec")
    workers: list[Workers] = Field(alias="workerGroupSpecs")


class Spec(Strict):
    config: str = Field(alias="serveConfigV2")
    cluster: Cluster = Field(alias="rayClusterConfig")


class Service(Strict):
    version: str = Field(alias="apiVersion", pattern="^ray.io/v1$")
    kind: str = Field(pattern="^RayService$")
    metadata: dict[str, str]
    spec: Spec


def test_the_examples_are_what_ray_and_kuberay_read() -> None:
    import ray
    from ray.serve.schema import ServeDeploySchema

    service = Service.model_validate(
        yaml.safe_load((REPOSITORY / "examples" / "kuberay.yaml").read_text())
    )
    assert service.spec.cluster.version == ray.__version__
    plain = (REPOSITORY / "examples" / "ray_serve.yaml").read_text()
    for text in (plain, service.spec.config):
        config = ServeDeploySchema.model_validate(yaml.safe_load(text))
        (application,) = config.applications
        assert application.import_path == "archer.integrations.ray_serve:app"
        found = settings(**application.args)
        assert found.replicas == 2
    assert found.max_replicas == service.spec.cluster.workers[0].most


def test_what_the_manifest_mounts_is_made_by_the_documentation() -> None:
    """Secrets and claims: a pod that names one which nobody made never starts."""
    docs = (REPOSITORY / "docs" / "devices.md").read_text()
    manifest = yaml.safe_load((REPOSITORY / "examples" / "kuberay.yaml").read_text())
    (workers,) = manifest["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    named = {each["name"]: each for each in workers["template"]["spec"]["volumes"]}
    secret = named["keys"]["secret"]["secretName"]
    assert f"kubectl create secret generic {secret} " in docs
    (claim,) = (
        yaml.safe_load(block.partition("```")[0])
        for block in docs.split("```yaml\n")[1:]
        if "PersistentVolumeClaim" in block
    )
    assert claim["metadata"]["name"] == named["models"]["persistentVolumeClaim"]["claimName"]


def test_the_image_with_ray_has_what_the_operator_runs_in_it() -> None:
    """KubeRay's own probes call wget, of which a slim image has none."""
    image = (REPOSITORY / "Dockerfile").read_text()
    (line,) = (each for each in image.replace("\\\n", "").splitlines() if "apt-get" in each)
    assert line.startswith('RUN case ",${EXTRAS}," in *,ray,*)')
    assert " wget " in line


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """Two replicas of the bundled model with short queues."""
    import ray
    from ray import serve

    from archer.integrations.ray_serve import app

    before = dict(os.environ)
    os.environ.update(ENVIRONMENT)
    ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": PORT})
        short = {"queue": 4, "memory": 0.004, "queue_timeout": 600}
        serve.run(app({"replicas": 2, "threads": 1, **short}), name="archer")
        yield f"{URL}/v1"
    finally:
        serve.shutdown()
        ray.shutdown()
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="module")
def expected() -> str:
    model = archer.load("pocket", device="cpu", dtype="float32")
    text = model.generate(PROMPT, length="auto", max_length=LENGTH)[0].text
    assert text is not None
    return text


@pytest.mark.slow
def test_two_replicas_answer_the_contract(served: str, expected: str) -> None:
    on_a_thread(lambda: check(served, expected))
    on_a_thread(lambda: asyncio.run(check_async(served, expected)))
    assert len(pids(REPLICA, below=os.getpid())) == 2


@pytest.mark.slow
def test_overload_is_told_with_429(served: str) -> None:
    body = ASKED | SLOW | {"max_tokens": 256}

    def ask(_: int) -> httpx.Response:
        return httpx.post(f"{served}/chat/completions", json=body, timeout=600)

    with ThreadPoolExecutor(48) as pool:
        replies = list(pool.map(ask, range(48)))
    codes = [reply.status_code for reply in replies]
    assert set(codes) == {200, 429}
    refused = next(reply for reply in replies if reply.status_code == 429)
    assert refused.json()["error"]["type"] == "rate_limit_error"
    assert int(refused.headers["retry-after"]) >= 1
    until(lambda: httpx.get(f"{URL}/ready", timeout=60).status_code == 200)


@pytest.mark.slow
def test_a_killed_replica_costs_a_retry(served: str, expected: str) -> None:
    """By the retry that is documented: the client's own."""

    def ask(_: int) -> str | None:
        with openai.OpenAI(base_url=served, api_key="none", max_retries=8) as client:
            time.sleep(0.1)
            text: str | None = client.chat.completions.create(**ASKED).choices[0].message.content
            return text

    first, second = pids(REPLICA, below=os.getpid())
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask, number) for number in range(40)]
        until(lambda: asked[4].done())
        os.kill(first, signal.SIGKILL)
        assert {each.result() for each in asked} == {expected}
    until(lambda: len(pids(REPLICA, below=os.getpid())) == 2)
    assert second in pids(REPLICA, below=os.getpid())
    on_a_thread(lambda: check(served, expected))
