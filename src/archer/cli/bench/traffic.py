"""`archer bench traffic`: requests that arrive one by one, and ways to serve them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archer.cli.bench.tables import Table, write_machine
from archer.cli.options import ModelOptions
from archer.cli.output import write_json
from archer.cli.whole import MaybeWhole, Whole
from archer.errors import BadRequest

if TYPE_CHECKING:
    pass

DEFAULT_MODEL = ModelOptions()
COLUMNS = ("way", "load", "mean", "p50", "p99", "p99 small", "goodput", "per s", "cpu s")


def traffic(
    *,
    model: ModelOptions = DEFAULT_MODEL,
    requests: Whole = 48,
    prompts: str = "40,400",
    lengths: str = "32,64,96,128",
    methods: str = "saber,archer,llada-confidence",
    loads: str = "0.8,inf",
    budget: MaybeWhole = None,
    seed: Whole = 0,
    repeats: Whole = 3,
    json: bool = False,
) -> int:
    """Serve random requests one at a time, in fixed batches of eight alike, and with the engine.

    Time is what this process computes, so that others on the machine do not count; in seconds.

    Parameters
    ----------
    requests
        How many requests arrive.
    prompts
        Shortest and longest prompt, in tokens.
    lengths
        Response lengths to draw from.
    methods
        Methods to draw from, with commas between them.
    loads
        Arrival rate as a fraction of what serving one at a time can handle; inf for all at once.
    budget
        Columns per pass of the engine.
    seed
        Chooses the requests and arrivals.
    repeats
        Rounds; the tables show medians.
    json
        Print one JSON object instead of a table.
    """
    from archer.bench.repeating import check_counts, whole_numbers
    from archer.bench.traffic import Load
    from archer.bench.traffic import traffic as measure
    from archer.machine.description import describe_torch
    from archer.methods.build import build

    check_counts(requests=requests, repeats=repeats)
    bounds = whole_numbers(prompts, "--prompts")
    if len(bounds) != 2 or bounds[0] > bounds[1]:
        raise BadRequest(
            f"--prompts takes the shortest and the longest, as in 40,400, not {prompts!r}."
        )
    names = tuple(name.strip() for name in methods.split(","))
    spans = whole_numbers(lengths, "--lengths")
    for name in names:
        build(name, {"length": spans[0]})
    shares = _shares(loads)
    drawn = Load(requests, (bounds[0], bounds[1]), spans, names, seed)
    loaded = model.load()
    told: dict[str, Any] = {
        "bench": "traffic",
        "model": loaded.name,
        "requests": requests,
        "prompts": list(bounds),
        "lengths": list(spans),
        "methods": list(names),
        "budget": budget,
        "seed": seed,
        "repeats": repeats,
        "machine": describe_torch(loaded.network.device, loaded.network.dtype),
    }
    rows = measure(loaded, drawn, shares, repeats, budget)
    if json:
        write_json(told | {"rows": [row.as_dict() for row in rows]})
        return 0
    write_machine(told["machine"])
    table = Table(COLUMNS, first=24)
    for row in rows:
        waits = (row.mean, row.p50, row.p99, row.p99_small)
        table.row(row.way, row.load, *waits, row.goodput, row.throughput, row.cpu)
    return 0


def _shares(spelled: str) -> list[float]:
    try:
        shares = [float(part) for part in spelled.split(",")]
    except ValueError:
        shares = []
    if not shares or not all(share > 0 for share in shares):
        raise BadRequest(f"--loads takes numbers above 0, or inf, as in 0.8,inf, not {spelled!r}.")
    return shares
