"""Workers that are actors of a Ray cluster (extra `[ray]`), which neither restarts nor retries any itself."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections import deque
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from archer.errors import ArcherError, BadRequest, extra
from archer.runs.executors.dispatch import Lost, News, answered
from archer.runs.executors.worker import Item, Order, Worker

if TYPE_CHECKING:
    from ray import ObjectRef
    from ray.actor import ActorHandle

LOCAL, AUTO = "local", "auto"
STORE = 100 << 20
"""Bytes of shared memory for objects: records are small."""
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""For a cluster of our own: it reports to nobody, and does not hide accelerators from workers without one."""
MISSING = f"Ray is not installed: {extra('ray')}."


def require_ray() -> None:
    """Refuse where Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise BadRequest(MISSING)


class Actor:
    """A worker inside Ray; errors that have a sentence travel as that sentence."""

    def __init__(self) -> None:
        self._worker: Worker | None = None

    def open(self, order: dict[str, Any]) -> dict[str, Any]:
        """Apart from the constructor, so that a refusal can be told."""
        try:
            self._worker = Worker(Order.of(order))
        except ArcherError as error:
            return {"refused": f"{error} (on {os.uname().nodename})"}
        return {}

    def complete(self, item: dict[str, Any]) -> dict[str, Any]:
        assert self._worker is not None
        try:
            return self._worker.complete(Item.of(item))
        except ArcherError as error:
            return {"refused": str(error)}


class RayPool:
    """A worker pool of actors on the cluster that this process is connected to."""

    kind = "ray"
    checks_files = True

    def __init__(self, address: str, *, cores: int) -> None:
        """Connect to a cluster, or start one on this machine with N cores."""
        require_ray()
        self._actors: dict[int, ActorHandle[Any]] = {}
        self._pending: dict[ObjectRef[Any], tuple[int, str | None]] = {}
        self._heard: deque[News] = deque()
        self._connect(address, cores)

    def _connect(self, address: str, cores: int) -> None:
        import ray

        own: dict[str, Any] = {}
        if address == LOCAL:
            for name, value in QUIET.items():
                os.environ.setdefault(name, value)
            own = {
                "num_cpus": cores,
                "object_store_memory": STORE,
                "include_dashboard": False,
                "_node_ip_address": "127.0.0.1",
            }
        try:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **own)
        except Exception as error:  # of no narrower kind where a node does not start in Ray's time
            ray.shutdown()
            reason = (str(error).strip() or "no reason").splitlines()[0].rstrip(".")
            raise BadRequest(
                f"There is no Ray cluster to use at {address!r} ({reason}). `ray start` "
                "starts one; the address local starts one for this run alone."
            ) from error

    @property
    def accelerators(self) -> int:
        """Graphics cards that the cluster has."""
        return int(self._resources().get("GPU", 0))

    @property
    def cores(self) -> int:
        return int(self._resources().get("CPU", 0))

    def hire(self, worker: int, order: Order, threads: int) -> None:
        import ray

        kind = ray.remote(Actor).options(
            num_cpus=order.source.threads or 1,
            num_gpus=int(order.expected["device"] == "cuda"),
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=threads,
        )
        self._actors[worker] = actor = kind.remote()
        self._pending[actor.open.remote(order.to_dict())] = (worker, None)

    def give(self, worker: int, item: Item) -> None:
        answer = self._actors[worker].complete.remote(asdict(item))
        self._pending[answer] = (worker, item.key)

    def news(self, seconds: float) -> News | None:
        import ray

        if not self._heard:
            ready, _ = ray.wait(list(self._pending), num_returns=1, timeout=seconds)
            if not ready:
                return None
            self._hear(ready[0])
        return self._heard.popleft()

    def close(self) -> None:
        """End the workers; the cluster stays for the next run, until `leave`."""
        import ray

        for actor in self._actors.values():
            ray.kill(actor)
        self._actors.clear()
        self._pending.clear()
        self._heard.clear()

    def leave(self) -> None:
        """Part from the cluster; one that was started here ends."""
        import ray

        ray.shutdown()

    def _hear(self, answer: ObjectRef[Any]) -> None:
        import ray

        worker, key = self._pending.pop(answer)
        try:
            message = ray.get(answer)
        except ray.exceptions.RayTaskError as error:
            cause = str(error).strip().splitlines()[-1]
            self._heard.append(self._lost(worker, f"it failed: {cause}"))
        except ray.exceptions.RayError as error:
            self._heard.append(self._lost(worker, _reason(error)))
        else:
            self._heard.append(answered(worker, key, message))

    def _lost(self, worker: int, reason: str) -> Lost:
        """Whatever else it was asked is no longer waited for."""
        import ray

        ray.kill(self._actors.pop(worker))
        self._pending = {ref: who for ref, who in self._pending.items() if who[0] != worker}
        return Lost(worker, reason)

    def _resources(self) -> dict[str, float]:
        import ray

        resources: dict[str, float] = ray.cluster_resources()
        return resources


def _reason(error: Exception) -> str:
    """Ray explains at length; the kind of the error is what a line has room for."""
    return f"its process or machine ended, {type(error).__name__}"
