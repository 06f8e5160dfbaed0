"""How many GPUs a load needs, by the engine's own schedule: `plan(ExpectedTraffic(rate=20))`."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from archer.costs.pass_times import Fitted, Losses, Roofline
from archer.costs.recording import timed_of
from archer.costs.roofline import BYTES, GPUS, Gpu, kv_numbers, weights_held
from archer.costs.shapes import published
from archer.errors import BadRequest
from archer.files import read_json
from archer.network.shape import Blocks
from archer.pages.figures import Labels, Series, lines
from archer.pages.tables import Field, Table, percent, table_of
from archer.planning.demand import Demand, drawn, read_demand, repeated
from archer.planning.request import MOST_REQUESTS, ExpectedTraffic, Hardware, ModelWork, Target
from archer.planning.search import GpuPlan, PlanSetting, ServingGpu, best, search
from archer.planning.update_rates import UpdateRate, counted_on, update_rate
from archer.request.request import Window

DEFAULT_TRAFFIC, DEFAULT_WORK, DEFAULT_HARDWARE = ExpectedTraffic(), ModelWork(), Hardware()
DEFAULT_TARGET = Target()


def demand(
    traffic: ExpectedTraffic, read: Demand | None, before: float = 0.0, after: float = 0.0
) -> tuple[Demand, range]:
    """The requests and which of them count; others come before and after, unless a file has its own times."""
    seed = traffic.seed
    if read is not None and read.rate is None:
        return read, range(len(read.times))
    rate = 1.0 if traffic.rate is None else traffic.rate
    first, last = (
        min(MOST_REQUESTS, math.ceil(rate * seconds)) if math.isfinite(rate) else 0
        for seconds in (before, after)
    )
    counted = traffic.requests if read is None else len(read.sizes)
    count = first + counted + last
    if read is None:
        stream = drawn(rate, count, traffic.prompt, traffic.length, seed)
    else:
        stream = repeated(read, count, first, seed)
    return stream, range(first, first + counted)


def settings(requests: Demand, work: ModelWork, hardware: Hardware) -> list[PlanSetting]:
    """Every GPU, radius and budget; refuses what can be refused before anything is simulated."""
    known = published(work.shape)
    if hardware.measured is None:
        largest = max(requests.sizes, key=lambda each: each.prompt + each.length)
        window = Window(known.shape.max_positions, trained=None)
        window.check(largest.prompt, largest.length)
    rates = update_rates(work)
    return [
        PlanSetting(gpu, rate, budget, radius, extra=int(known.shape.shift))
        for gpu in serving_gpus(work, hardware)
        for radius, rate in rates.items()
        for budget in hardware.budget
    ]


def update_rates(work: ModelWork) -> dict[float | None, UpdateRate]:
    """How many updates, and how many of them full, by radius."""
    if work.updates is not None and work.refreshed is not None:
        return {None: UpdateRate(work.updates, work.refreshed)}
    radii = [None] if work.radius is None else work.radius
    return {radius: update_rate(work.planned_method, radius, work.shape) for radius in radii}


def serving_gpus(work: ModelWork, hardware: Hardware) -> list[ServingGpu]:
    """With their pass times and the memory that requests may hold."""
    if hardware.measured is not None:
        timed = timed_of(read_json(hardware.measured), str(hardware.measured))
        return [ServingGpu("this machine", Fitted.to(timed))]
    shape = published(work.shape).shape
    if isinstance(shape.attention, Blocks):
        raise BadRequest(
            f"{work.shape} attends block by block, and such passes cannot be planned yet."
        )
    losses = Losses(hardware.efficiency, hardware.pass_ms / 1e3, hardware.row_ms / 1e3)
    column, held = BYTES * kv_numbers(shape, 1), BYTES * weights_held(shape)
    return [
        ServingGpu.holding(gpu.name, Roofline(gpu, shape, losses), column, gpu.memory, held)
        for gpu in gpus_named(hardware.gpus)
    ]


@dataclass(frozen=True)
class CapacityPlan:
    """What was asked, and the fewest GPUs for every setting."""

    request: Mapping[str, Any]
    settings: list[GpuPlan]

    @property
    def best(self) -> list[GpuPlan]:
        """Of every GPU the best setting."""
        return best(self.settings)

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.request,
            "plan": [each.to_dict() for each in self.best],
            "all": [each.to_dict() for each in self.settings],
        }

    def figure(self) -> str:
        """Requests in time against the number of GPUs, as an SVG."""
        series = [
            Series(
                each.gpu,
                [trial.gpus for trial in each.tried],
                [100 * trial.outcome.in_time for trial in each.tried],
            )
            for each in self.best
        ]
        labels = Labels("Requests in time by number of GPUs", "GPUs", "% within 3 x the time alone")
        return lines(series, labels).svg


def plan(
    traffic: ExpectedTraffic = DEFAULT_TRAFFIC,
    work: ModelWork = DEFAULT_WORK,
    hardware: Hardware = DEFAULT_HARDWARE,
    target: Target = DEFAULT_TARGET,
) -> CapacityPlan:
    """Simulate until the fewest GPUs of every setting are known."""
    request = asdict(traffic) | asdict(work) | asdict(hardware) | asdict(target)
    request["method"] = work.planned_method
    file = traffic.file
    read = None if file is None else read_demand(file, traffic.rate, traffic.seed)
    tried = settings(demand(traffic, read)[0], work, hardware)
    plans = search(partial(demand, traffic, read), tried, target)
    return CapacityPlan({name: _plain(value) for name, value in request.items()}, plans)


def _plain(value: Any) -> Any:
    """As JSON has it: no paths, and no number without end."""
    if isinstance(value, tuple | list):
        return ["inf" if each == math.inf else each for each in value]
    return str(value) if isinstance(value, Path) else value


def gpus_named(names: Iterable[str]) -> list[Gpu]:
    """GPUs by the beginnings of their names."""
    beginnings = list(names)
    if beginnings == ["all"]:
        return list(GPUS)
    chosen = []
    for name in beginnings:
        like = [gpu for gpu in GPUS if name and gpu.name.lower().startswith(name.lower())]
        if len(like) != 1:
            raise BadRequest(
                f"There is no GPU {name!r} here. GPUs: {', '.join(gpu.name for gpu in GPUS)}."
            )
        chosen += like
    return chosen


def tables(result: Mapping[str, Any]) -> list[Table]:
    """The best setting of every GPU; and all settings, where there are more."""
    source = "as given" if result.get("updates") else counted_on(result["method"], result["shape"])
    notes = [f"Updates of {result['method']} and how many of them are full: {source}."]
    chosen = replace(_table("The fewest GPUs", result["plan"]), notes=notes)
    if len(result["all"]) == len(result["plan"]):
        return [chosen]
    return [chosen, _table("All settings", result["all"])]


def _table(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    fields = (
        Field("gpu", "GPU"),
        Field(
            "radius", of=lambda row: "-" if row["radius"] is None else f"{float(row['radius']):g}"
        ),
        Field("budget"),
        Field("gpus", "GPUs"),
        *(Field(name, f"{name} s") for name in ("alone", "p50", "p99")),
        percent("in_time", "in time"),
        Field("goodput", "good /s", 1),
        percent("busy", "busy", 0),
        Field("columns", digits=0),
    )
    return table_of(title, fields, rows)
