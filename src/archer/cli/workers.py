"""Who computes: this process, `--workers` processes, or a Ray cluster by `--ray`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cyclopts import Parameter

from archer.cli.numbers import MaybeProcesses
from archer.cli.options import ModelOptions, check_threads
from archer.errors import BadRequest

if TYPE_CHECKING:
    from archer.loading.source import Source
    from archer.model import Model
    from archer.runs.executors.dispatch import Dispatcher
    from archer.runs.executors.executor import Executor


@dataclass(frozen=True)
class Computing:
    """A model, or the outline of one, with whoever computes it."""

    model: Model
    executor: Executor
    device: str | None = None
    """The kind of device of the workers, where the model is an outline."""


@Parameter(name="*", group="Workers")
@dataclass(frozen=True)
class WorkerOptions:
    """How many problems are completed side by side, and where."""

    workers: MaybeProcesses = None
    """Processes with a model each [default: 1; with --ray as many as the cluster has room for]."""
    ray: str | None = None
    """Use a Ray cluster: auto finds the running one, local starts one here; or give its address."""

    @contextmanager
    def opened(self, model: ModelOptions) -> Iterator[Computing]:
        """The model and its executor, until this is left; refuses what can be refused first."""
        if self.ray is not None:
            if not self.ray.strip():
                raise BadRequest("--ray takes auto, local or the address of a cluster.")
            check_whole(model)
            with _on_ray(self.ray, self.workers, model) as workers:
                yield workers
        elif self.workers is not None and self.workers > 1:
            from archer.model import Model

            check_whole(model)
            kind = model.place()[0].type
            outline = Model.outline(model)
            with processes(model, outline, self.workers) as executor:
                yield Computing(outline, executor, kind)
        else:
            from archer.runs.executors.executor import Inline

            yield Computing(model.load(), Inline())


def processes(source: Source, model: Model, workers: int) -> Dispatcher:
    """Processes on this machine, each with its share of the processor; `model` may be an outline."""
    from archer.machine.description import usable_cores
    from archer.machine.threads import fitting
    from archer.runs.executors.dispatch import Dispatcher
    from archer.runs.executors.processes import ProcessPool
    from archer.runs.executors.worker import Order

    share = min(max(1, usable_cores() // workers), fitting(model.folder.parameters))
    own = replace(source.pinned(model.folder), threads=source.threads or share)
    return Dispatcher(ProcessPool(), Order(own, {}), workers)


@contextmanager
def _on_ray(address: str, workers: int | None, source: Source) -> Iterator[Computing]:
    from archer.machine.description import usable_cores
    from archer.machine.devices import default_device
    from archer.machine.threads import fitting
    from archer.model import Model
    from archer.runs.executors.dispatch import Dispatcher
    from archer.runs.executors.on_ray import LOCAL, RayPool, require_ray
    from archer.runs.executors.worker import Order

    require_ray()
    Model.outline(source)  # what is wrong with the model is said before a cluster is started
    local = address == LOCAL
    most = usable_cores() if workers is None else workers * (source.threads or 1)
    pool = RayPool(address, cores=max(most, usable_cores()) if local else most)
    try:
        device = source.device or ("cuda" if pool.accelerators else default_device())
        kind = str(device).partition(":")[0]
        source = replace(source, device=kind)
        outline = Model.outline(source)
        if source.threads is None and kind == "cpu":
            source = replace(source, threads=fitting(outline.folder.parameters))
        room = pool.accelerators if kind == "cuda" else pool.cores // (source.threads or 1)
        own = source.pinned(outline.folder)
        with Dispatcher(pool, Order(own, {}), workers or max(1, room)) as executor:
            yield Computing(outline, executor, kind)
    finally:
        pool.leave()


def check_whole(model: ModelOptions) -> None:
    """Refuse a model that workers cannot have."""
    if model.shards > 1:
        raise BadRequest(
            "Each worker has a whole model: --shards works with neither --workers nor --ray."
        )
    if model.threads is not None:
        check_threads(model.threads)
