"""`archer bench serve`: a local server under load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from archer.cli.bench.tables import Table, write_machine
from archer.cli.extras import SERVE, require
from archer.cli.options import use_threads
from archer.cli.output import write_json, write_line
from archer.cli.whole import Whole
from archer.errors import BadRequest
from archer.files import check_target

COLUMNS = ("load", "requests", "p50 s", "p99 s", "per s", "in time per s", "over alone", "cpu s")
LOADS = "0.8"
CLIENTS = "1,4,16"


def serve(
    *,
    model: str = "pocket",
    requests: Whole = 48,
    clients: str = CLIENTS,
    loads: Annotated[str, Parameter(name="--loads")] = LOADS,
    seconds: float = 120.0,
    mixes: Whole = 24,
    figure: Path | None = None,
    json: bool = False,
) -> int:
    """Ask a server on this machine, with one thread, as fast as it answers and at random arrivals.

    Parameters
    ----------
    model
        Folder of a model, or its hub id; the bundled one if left out.
    requests
        Requests under each load.
    clients
        Numbers of clients that ask again as soon as they are answered, with commas between them.
    loads
        Arrival rates as fractions of what serving one at a time can handle, with commas between them.
    seconds
        No request begins later than this after the first under its load.
    mixes
        Mixes of rows that are timed before each load, so that archer plan --check can simulate the same.
    figure
        Plot latency against load, as this SVG file.
    json
        Print one JSON object instead of a table.
    """
    from archer.bench.passes import Mixes
    from archer.bench.repeating import check_counts, whole_numbers
    from archer.bench.serve import Plan, serve_bench
    from archer.bench.traffic import Load
    from archer.costs.pass_times import MOST_COSTS
    from archer.machine.description import describe_torch
    from archer.model import load

    require("The bench of the server", SERVE, "serve")
    if figure is not None:
        _check_figure(figure)
    check_counts(requests=requests)
    if mixes < MOST_COSTS:
        raise BadRequest(f"--mixes takes at least {MOST_COSTS}, one for each cost, not {mixes}.")
    use_threads(1)
    plan = Plan(
        Load(requests),
        _parts(loads),
        whole_numbers(clients, "--clients"),
        _positive(seconds),
        Mixes(mixes),
    )
    loaded = load(model)
    where = describe_torch(loaded.network.device, loaded.network.dtype)
    found = serve_bench(loaded, model, plan)
    if figure is not None:
        figure.write_text(_drawn(found.rows), encoding="utf-8")
    if json:
        write_json({"bench": "serve", "model": model, **found.as_dict(), "machine": where})
        return 0
    write_machine(where)
    table = Table(COLUMNS, first=max(len(row.load) for row in found.rows))
    for row in found.rows:
        rates = (row.throughput, row.goodput, row.over_alone, row.cpu)
        table.row(row.load, row.requests, row.p50, row.p99, *rates)
    write_line("")
    write_line(f"start to ready      {found.start_seconds:.1f} s")
    write_line(
        f"CPU per request     {found.direct_cpu:.3f} s in the loop, {found.server_cpu:.3f} s served"
    )
    write_line(f"overhead            {100 * found.overhead:.1f} %")
    write_line(f"provisional event   {found.event_ms:.2f} ms of CPU")
    write_line(f"hang up to free     {found.cancel_seconds:.3f} s")
    return 0


def _check_figure(path: Path) -> None:
    """Refuse before minutes of measurement what could not be kept after them."""
    from archer.pages.figures import REMEDY, can_draw

    if not can_draw():
        raise BadRequest(REMEDY)
    check_target(path)


def _drawn(rows: Any) -> str:
    from archer.pages.figures import Labels, Series, lines

    names = [row.load for row in rows]
    series = [
        Series("half are answered within", names, [row.p50 for row in rows]),
        Series("99 of 100 are answered within", names, [row.p99 for row in rows]),
    ]
    return lines(series, Labels("Latency by load", "load", "seconds")).svg


def _parts(spelled: str) -> list[float]:
    try:
        found = [float(part) for part in spelled.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < each < 100 for each in found):
        raise BadRequest(f"--loads takes numbers above 0, as in 0.5,0.8, not {spelled!r}.")
    return found


def _positive(seconds: float) -> float:
    if not 0 < seconds <= 3600:
        raise BadRequest(f"--seconds takes a number above 0 and at most 3600, not {seconds}.")
    return seconds
