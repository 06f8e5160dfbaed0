"""`archer bench experts`: the experts of one layer, three ways."""

from __future__ import annotations

from archer.cli.bench.tables import Table, write_machine
from archer.cli.options import use_threads
from archer.cli.output import write_json
from archer.cli.whole import MaybeWhole, Whole

COLUMNS = ("rows", "experts", "engine ms", "every x", "grouped x", "library x", "spread")


def experts(
    *,
    shape: str = "llada-moe-7b",
    rows: str = "256,768",
    repeats: Whole = 5,
    library: bool = False,
    device: str | None = None,
    dtype: str | None = None,
    threads: MaybeWhole = None,
    json: bool = False,
) -> int:
    """Send token rows to the experts of one layer, sorted, and compare with other ways to do the same.

    Parameters
    ----------
    shape
        llada-moe-7b or llada2-mini.
    rows
        Token rows, with commas between them.
    repeats
        Rounds that are measured, after one that is not.
    library
        Compare with the transformers library's loop, too.
    device
        Such as cpu or cuda:0; the accelerator if there is one.
    dtype
        float32, bfloat16, float16 or float64; bfloat16 on an accelerator, else float32.
    threads
        CPU threads; as many as there are cores.
    json
        Print one JSON object instead of a table.
    """
    from archer.bench.experts import measure, some_layer
    from archer.bench.library import check_library
    from archer.bench.machine import machine
    from archer.bench.repeating import check_counts, whole_numbers
    from archer.machine.devices import place

    numbers = whole_numbers(rows, "--rows")
    check_counts(repeats=repeats)
    if library:
        check_library()
    if threads is not None:
        use_threads(threads)
    where, kind = place(device, dtype)
    layer = some_layer(shape, where, kind)
    measured = measure(layer, numbers, repeats, library=library)
    facts = machine(where, kind)
    if json:
        told = {"bench": "experts", "shape": shape, "repeats": repeats, "machine": facts}
        write_json(told | {"rows": [row.as_dict() for row in measured]})
        return 0
    write_machine(facts)
    table = Table(COLUMNS)
    for row in measured:
        gains = [row.gains.get(name) for name in ("every", "grouped", "library")]
        table.row(row.rows, row.used, row.milliseconds["engine"], *gains, row.spread["engine"])
    return 0
