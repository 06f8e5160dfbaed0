"""Replicas of `archer serve` under Ray Serve (extra `[ray]`): `serve run archer.integrations.ray_serve:app`.

Each replica has a model and an engine of its own behind the same application as `archer serve`. No request
depends on another, so that any replica may take any of them, and a request whose replica died may be sent
again: it gets the same answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from ray import serve
from ray.serve import Application

from archer.loading.source import Source
from archer.machine.devices import DTYPES, SPELLINGS
from archer.machine.threads import MOST_THREADS
from archer.server.access import read_keys
from archer.server.hosted import Hosted
from archer.server.lifecycle import Setup
from archer.server.limits import CONNECTIONS, Limits

HEALTH_SECONDS = 5.0
"""Between two looks at a replica; a dead process is noticed at once, this finds an engine that has ended."""

MOST = 1e9
"""Seconds or GiB that anybody means."""


class Settings(BaseModel):
    """What `serve run` and a configuration file may say, by the names of `archer serve`'s options."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), allow_inf_nan=False)

    model: str = "pocket"
    revision: str | None = None
    device: str | None = None
    """Asked of every replica; `cuda` makes Ray give each a card of its own."""
    dtype: str | None = None
    quantize: Literal["int8"] | None = None
    threads: int | None = Field(None, ge=1, le=MOST_THREADS)
    replicas: int = Field(1, ge=1)
    """How many, or the least where `max_replicas` says that it may be more."""
    max_replicas: int | None = Field(None, ge=1)
    target: float = Field(8.0, gt=0)
    """Requests per replica that autoscaling aims at."""
    budget: int | None = Field(None, ge=1)
    memory: float | None = Field(None, gt=0, le=MOST)
    """GiB for running requests of a replica."""
    max_length: int = Field(1024, ge=1)
    queue: int = Field(64, ge=1)
    queue_timeout: float = Field(60.0, gt=0, le=MOST)
    timeout: float = Field(600.0, gt=0, le=MOST)
    rows_per_key: int = Field(16, ge=1)
    drain: float = Field(30.0, ge=0, le=MOST)
    api_key_file: Path | None = None
    """Read on every replica's machine."""
    without_key: bool = False
    """Answer to every name although there is no key: where something in front decides who may ask."""
    page: bool = True

    @field_validator("device")
    @classmethod
    def _check_device(cls, device: str | None) -> str | None:
        kind, numbered, _ = (device or "").partition(":")
        if numbered and kind != "cpu":
            raise ValueError(
                "Ray gives each replica a card of its own, which the replica sees as the only one: write "
                f"{kind}, not {device}."
            )
        return device

    @field_validator("dtype")
    @classmethod
    def _check_dtype(cls, dtype: str | None) -> str | None:
        if dtype is not None and SPELLINGS.get(dtype, dtype) not in DTYPES:
            raise ValueError(
                f"There is no dtype {dtype!r} here. Choose one of {', '.join(DTYPES)}."
            )
        return dtype

    @model_validator(mode="after")
    def _check_replicas(self) -> Settings:
        if self.max_replicas is not None and self.max_replicas < self.replicas:
            raise ValueError(
                f"max_replicas is {self.max_replicas} and replicas, the least, is {self.replicas}."
            )
        return self

    def setup(self) -> Setup:
        """The same for the server."""
        return Setup(
            keys=() if self.api_key_file is None else read_keys(self.api_key_file),
            without_key=self.without_key,
            page=self.page,
            budget=self.budget,
            memory=None if self.memory is None else int(self.memory * (1 << 30)),
            limits=Limits(
                length=self.max_length,
                queue=self.queue,
                queue_seconds=self.queue_timeout,
                seconds=self.timeout,
                rows_per_key=self.rows_per_key,
                drain_seconds=self.drain,
            ),
        )

    def hosted(self) -> Hosted:
        """The application of one replica; its model is loaded when it is opened."""
        source = Source(
            self.model, self.revision, self.device, self.dtype, self.quantize, self.threads
        )
        return Hosted(source.load, self.setup())

    def options(self) -> dict[str, Any]:
        """What Ray Serve is told about the replicas.

        A replica is given more requests than its queue takes, and the router holds as many, so that it is the
        engine that refuses, with 429 and a time to come back.
        """
        scale: dict[str, Any] = {"num_replicas": self.replicas}
        if self.max_replicas is not None:
            scale = {
                "num_replicas": None,
                "autoscaling_config": {
                    "min_replicas": self.replicas,
                    "max_replicas": self.max_replicas,
                    "target_ongoing_requests": self.target,
                },
            }
        accelerated = self.device is not None and self.device.partition(":")[0] == "cuda"
        return {
            **scale,
            "name": "archer",
            "max_ongoing_requests": CONNECTIONS,
            "max_queued_requests": CONNECTIONS,
            "graceful_shutdown_timeout_s": self.drain,
            "health_check_period_s": HEALTH_SECONDS,
            "ray_actor_options": {"num_cpus": self.threads or 1, "num_gpus": int(accelerated)},
        }


class Replica:
    """One server in the cluster; Ray gives it requests and asks how it is."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._hosted = Settings.model_validate(settings).hosted()

    async def __serve_build_asgi_app__(self) -> Hosted:
        await self._hosted.open()
        return self._hosted

    def check_health(self) -> None:
        self._hosted.check()


def app(arguments: dict[str, Any]) -> Application:
    """The application as `serve run` and configuration files name it; `Settings` are its arguments."""
    settings = Settings.model_validate(arguments)
    deployment = serve.deployment(serve.ingress()(Replica)).options(**settings.options())
    made: Application = deployment.bind(settings.model_dump(mode="json"))
    return made
