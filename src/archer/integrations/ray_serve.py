"""Replicas of `archer serve` under Ray Serve: `serve run archer.integrations.ray_serve:app`."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any

from pydantic import ConfigDict, Field, field_validator, model_validator
from ray import serve
from ray.serve import Application

from archer.errors import BadRequest
from archer.loading.source import Source
from archer.model import load_here
from archer.server.lifecycle import AsgiApp
from archer.server.limits import CONNECTIONS
from archer.server.settings import Count, ServerSettings

HEALTH_SECONDS = 5.0
"""Between two looks at a replica; a dead process is noticed at once, this finds an engine that has ended."""


class RaySettings(ServerSettings):
    """The arguments of `serve run`: server, model and replicas; files are read on every replica's machine."""

    model_config = ConfigDict(protected_namespaces=())

    source: Source = Source("pocket")
    """Of every replica; its fields stand beside the others.  `cuda` makes Ray give each a GPU of its own."""
    replicas: Count = 1
    """How many, or the least where `max_replicas` says that it may be more."""
    max_replicas: Count | None = None
    target: float = Field(8.0, gt=0)
    """Requests per replica that autoscaling aims at."""

    @model_validator(mode="before")
    @classmethod
    def _gather_source(cls, given: Any) -> Any:
        """The fields of a source become one; what is none of them is left to the others."""
        if not isinstance(given, dict) or "source" in given:
            return given
        own = {field.name for field in fields(Source)}
        source = {"model": "pocket", **{name: given[name] for name in given if name in own}}
        return {"source": source, **{name: given[name] for name in given if name not in own}}

    @field_validator("source")
    @classmethod
    def _check_source(cls, source: Source) -> Source:
        try:
            source.check()
        except BadRequest as error:
            raise ValueError(str(error)) from error
        kind, numbered, _ = str(source.device or "").partition(":")
        if numbered and kind != "cpu":
            raise ValueError(
                "Ray gives each replica a GPU of its own, which the replica sees as the only one: write "
                f"{kind}, not {source.device}."
            )
        if source.shards != 1:
            raise ValueError(
                "Ray gives each replica one GPU, so a replica's model cannot be divided over shards."
            )
        return source

    @model_validator(mode="after")
    def _check_replicas(self) -> RaySettings:
        if self.max_replicas is not None and self.max_replicas < self.replicas:
            raise ValueError(
                f"max_replicas is {self.max_replicas} and replicas, the least, is {self.replicas}."
            )
        if self.allow_weight_updates is not None and (self.max_replicas or self.replicas) > 1:
            raise ValueError(
                "A request for new weights reaches one replica, and the others would go on with the old "
                "ones: with allow_weight_updates, replicas is 1."
            )
        return self

    def hosted(self) -> AsgiApp:
        """The application of one replica; its model is loaded when it is opened."""
        return AsgiApp(partial(load_here, self.source), self)

    def options(self) -> dict[str, Any]:
        """For Ray Serve, which queues more requests than an engine, so that the engine refuses, with 429."""
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
        accelerated = str(self.source.device or "").partition(":")[0] == "cuda"
        return {
            **scale,
            "name": "archer",
            "max_ongoing_requests": CONNECTIONS,
            "max_queued_requests": CONNECTIONS,
            "graceful_shutdown_timeout_s": self.drain,
            "health_check_period_s": HEALTH_SECONDS,
            "ray_actor_options": {
                "num_cpus": self.source.threads or 1,
                "num_gpus": int(accelerated),
            },
        }


class Replica:
    """One server in the cluster; Ray gives it requests and asks how it is."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._hosted = RaySettings.model_validate(settings).hosted()

    async def __serve_build_asgi_app__(self) -> AsgiApp:
        await self._hosted.open()
        return self._hosted

    def check_health(self) -> None:
        self._hosted.check()


def app(arguments: dict[str, Any]) -> Application:
    """The application as `serve run` and configuration files name it; `RaySettings` are its arguments."""
    settings = RaySettings.model_validate(arguments)
    deployment = serve.deployment(serve.ingress()(Replica)).options(**settings.options())
    application: Application = deployment.bind(settings.model_dump(mode="json"))
    return application
