"""`archer plan`: how many GPUs of which kind a load needs, simulated with the engine's own scheduler."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from archer.cli.numbers import Positives, Whole, amounts, names
from archer.cli.output import Json, check_figure, emit, write_table
from archer.files import replace_file
from archer.planning.request import ExpectedTraffic, Hardware, ModelWork, Target


@Parameter(name="*", group="Demand")
@dataclass(frozen=True)
class TrafficOptions(ExpectedTraffic):
    """What will be asked."""

    requests: Whole = 400
    seed: Whole = 0


@Parameter(name="*", group="Work")
@dataclass(frozen=True)
class WorkOptions(ModelWork):
    """How much work a request is."""

    radius: Annotated[tuple[float, ...] | None, Parameter(converter=amounts, n_tokens=1)] = None


@Parameter(name="*", group="GPUs")
@dataclass(frozen=True)
class HardwareOptions(Hardware):
    """What it runs on."""

    gpus: Annotated[tuple[str, ...], Parameter(converter=names, n_tokens=1)] = (
        "A100",
        "H100",
        "B200",
    )
    budget: Positives = (1024,)


@Parameter(name="*", group="Target")
@dataclass(frozen=True)
class TargetOptions(Target):
    """What is good enough."""


DEFAULT_TRAFFIC, DEFAULT_WORK = TrafficOptions(), WorkOptions()
DEFAULT_HARDWARE, DEFAULT_TARGET = HardwareOptions(), TargetOptions()


def plan(
    *,
    demand: TrafficOptions = DEFAULT_TRAFFIC,
    work: WorkOptions = DEFAULT_WORK,
    on: HardwareOptions = DEFAULT_HARDWARE,
    target: TargetOptions = DEFAULT_TARGET,
    figure: Path | None = None,
    json: Json = False,
) -> int:
    """Tell how many GPUs a load needs, before you buy any; nothing but the schedule is computed.

    Args:
        figure: Plot requests in time against the number of GPUs, as this SVG file.
    """
    if figure is not None:
        check_figure(figure)
    from archer.planning.plan import plan as simulated
    from archer.planning.plan import tables

    capacity = simulated(demand, work, on, target)
    if figure is not None:
        replace_file(figure, capacity.figure().encode())
    result = capacity.to_dict()

    def show() -> None:
        for table in tables(result):
            write_table(table)

    return emit(result, show, json=json)
