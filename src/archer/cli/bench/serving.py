"""`archer bench traffic`, `passes`, `serve` and `judge`: requests, turns, a server and its judge."""

from dataclasses import asdict
from functools import partial
from pathlib import Path

from archer.cli.bench import Repeats, emit_tables, measure_rows
from archer.cli.numbers import (
    Amount,
    Amounts,
    Bounds,
    MaybePositive,
    Names,
    Positive,
    Positives,
    Whole,
)
from archer.cli.options import DEFAULT_MODEL, SERVE, ModelOptions, require, use_threads
from archer.cli.output import Json, check_figure
from archer.errors import BadRequest
from archer.files import replace_file

LONGEST = 3600


def traffic(
    *,
    model: ModelOptions = DEFAULT_MODEL,
    requests: Positive = 48,
    prompts: Bounds = (40, 400),
    lengths: Positives = (32, 64, 96, 128),
    methods: Names = ("saber", "archer", "llada-confidence"),
    loads: Amounts = (0.8, float("inf")),
    budget: MaybePositive = None,
    seed: Whole = 0,
    repeats: Repeats = 3,
    json: Json = False,
) -> int:
    """Serve random requests one at a time, in fixed batches of eight alike, and with the engine.

    Time is what this process computes, so that others on the machine do not count; in seconds.

    Args:
        requests: How many requests arrive.
        prompts: Shortest and longest prompt, in tokens.
        lengths: Response lengths to draw from.
        methods: Methods to draw from, comma-separated.
        loads: Arrival rate as a fraction of what serving one at a time can handle; inf for all at once.
        budget: Columns per pass of the engine.
        seed: Chooses the requests and arrivals.
    """
    from archer.bench.facts import model_facts
    from archer.bench.traffic import Load, tables
    from archer.bench.traffic import traffic as measure
    from archer.methods.build import build

    for name in methods:
        build(name, {"length": lengths[0]})
    load = Load(requests, prompts, lengths, methods, seed)
    loaded = model.load()
    facts = model_facts("traffic", loaded, **asdict(load), budget=budget, repeats=repeats)
    rows = partial(measure, loaded, load, loads, repeats, budget)
    return measure_rows(facts, rows, tables, json=json)


def passes(
    *,
    model: ModelOptions = DEFAULT_MODEL,
    mixes: Positive = 24,
    rows: Positives = (1, 2, 3, 4, 6, 8),
    prompts: Bounds = (40, 400),
    lengths: Positives = (32, 64, 96, 128),
    repeats: Repeats = 3,
    seed: Whole = 0,
    json: Json = False,
) -> int:
    """Time turns of the engine over random mixes of rows, full and cached, and fit what they cost.

    On one thread of a processor time is what this process computes, so that others do not count.
    The JSON object is for archer plan --measured.

    Args:
        mixes: How many mixes are drawn.
        rows: Requests in a mix, in turn.
        prompts: Shortest and longest prompt, in tokens.
        lengths: Response lengths to draw from.
        seed: Chooses the mixes.
    """
    from archer.bench.facts import model_facts
    from archer.bench.passes import Mixes, tables
    from archer.bench.passes import passes as measure
    from archer.costs.pass_times import Fitted
    from archer.costs.recording import plain

    _check_mixes(mixes)
    loaded = model.load()
    facts = model_facts("passes", loaded, seed=seed)
    timed = tuple(measure(loaded, Mixes(mixes, rows, prompts, lengths, repeats, seed)))
    result = facts | {"fitted": asdict(Fitted.to(timed)), "timed": plain(timed)}
    return emit_tables(result, tables, json=json)


def serve(
    *,
    model: str = "pocket",
    requests: Positive = 48,
    clients: Positives = (1, 4, 16),
    loads: Amounts = (0.8,),
    seconds: Amount = 120.0,
    mixes: Positive = 24,
    figure: Path | None = None,
    json: Json = False,
) -> int:
    """Ask a server on this machine, with one thread, as fast as it answers and at random arrivals.

    Args:
        model: Folder of a model, or its hub id.
        requests: Requests under each load.
        clients: Numbers of clients that send the next request as soon as they have an answer,
            comma-separated.
        loads: Arrival rates as fractions of what serving one at a time can handle, comma-separated.
        seconds: Start no request later than this many seconds after the first of its load; at most 3600.
        mixes: Mixes of rows that are timed before each load, for archer plan --measured.
        figure: Plot latency against load, as this SVG file.
    """
    from archer.bench.facts import model_facts
    from archer.bench.passes import Mixes
    from archer.bench.serve import ServeLoads, latency_figure, serve_bench, tables
    from archer.bench.traffic import Load
    from archer.model import load

    require("The bench of the server", SERVE, "serve")
    if figure is not None:
        check_figure(figure)
    _check_mixes(mixes)
    if seconds > LONGEST or max(loads) >= 100:
        raise BadRequest(
            f"--seconds takes at most {LONGEST} and --loads numbers below 100, not {seconds:g} and "
            f"{max(loads):g}."
        )
    use_threads(1)
    loaded = load(model)
    facts = model_facts("serve", loaded)
    plan = ServeLoads(Load(requests), loads, clients, seconds, Mixes(mixes))
    result = facts | serve_bench(loaded, model, plan).to_dict()
    if figure is not None:
        replace_file(figure, latency_figure(result).encode())
    return emit_tables(result, tables, json=json)


def judge(*, samples: Positive = 100, programs: Positive = 300, json: Json = False) -> int:
    """Measure how fast programs are judged.

    Args:
        samples: Checks timed one by one, with and without a waiting sandbox.
        programs: Programs graded at full speed, one per core at a time.
    """
    from archer.bench.judge import measure, table

    return emit_tables(measure(samples, programs).to_dict(), table, json=json)


def _check_mixes(mixes: int) -> None:
    from archer.costs.pass_times import MOST_COSTS

    if mixes < MOST_COSTS:
        raise BadRequest(f"--mixes takes at least {MOST_COSTS}, one for each cost, not {mixes}.")
