"""`archer bench load`: time and memory of loading a checkpoint."""

from __future__ import annotations

from archer.cli.bench.tables import Table, write_machine
from archer.cli.options import ModelOptions, use_threads
from archer.cli.output import write_json
from archer.cli.whole import Whole

DEFAULT_MODEL = ModelOptions()
COLUMNS = ("seconds", "weights MiB", "before MiB", "peak MiB", "peak/weights", "after updates MiB")


def load(
    model: ModelOptions = DEFAULT_MODEL,
    *,
    updates: Whole = 0,
    json: bool = False,
) -> int:
    """Load a checkpoint in a process of its own, and report its time and peak memory.

    Parameters
    ----------
    updates
        Updates of a short response to decode afterwards.
    json
        Print one JSON object instead of a table.
    """
    from archer.bench.load import measure_load

    if model.threads is not None:
        use_threads(model.threads)
    found = measure_load(model, updates=updates).as_dict()
    if json:
        write_json({"bench": "load", **found})
        return 0
    write_machine(found["machine"])
    sizes = ("weight_bytes", "before_bytes", "peak_bytes")
    weights, before, peak = (found[name] / (1 << 20) for name in sizes)
    after = found["decoded_peak_bytes"] / (1 << 20)
    Table(COLUMNS).row(found["seconds"], weights, before, peak, found["peak_over_weights"], after)
    return 0
