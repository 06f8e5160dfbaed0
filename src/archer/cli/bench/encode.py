"""`archer bench encode`: what a chat prompt costs before the network sees it."""

from __future__ import annotations

from archer.cli.bench.tables import Table, write_machine
from archer.cli.output import write_json
from archer.cli.whole import Whole


def encode(*, model: str = "pocket", repeats: Whole = 51, json: bool = False) -> int:
    """Time one chat prompt through template and tokenizer.

    Parameters
    ----------
    model
        Folder of a model with a chat template, or its hub id; the bundled one if left out.
    repeats
        Calls of each kind, in turn.
    json
        Print one JSON object instead of a table.
    """
    import torch

    from archer.bench.encode import measure_encoding
    from archer.bench.machine import machine

    rows = measure_encoding(model, repeats)
    where = machine(torch.device("cpu"), torch.float32)
    if json:
        told = [row.as_dict() for row in rows]
        write_json({"bench": "encode", "model": model, "rows": told, "machine": where})
        return 0
    write_machine(where)
    table = Table(("way", "ms", "spread"), first=max(len(row.how) for row in rows))
    for row in rows:
        table.row(row.how, row.ms, f"{100 * row.spread:.1f} %")
    return 0
