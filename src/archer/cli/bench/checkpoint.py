"""`archer bench checkpoint`: random weights on disk, to measure loading with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from archer.cli.output import write_line
from archer.cli.whole import MaybeWhole
from archer.errors import BadRequest, reason_of


def checkpoint(
    folder: Path,
    *,
    shape: str = "llada-8b",
    layers: MaybeWhole = None,
    dtype: str = "bfloat16",
) -> int:
    """Write a checkpoint of random weights, shard by shard.  The full LLaDA-8B takes 16 GB of disk.

    Parameters
    ----------
    folder
        Where to; must be empty or not exist yet.
    shape
        llada-8b, dream-7b, llada-moe-7b, llada2-mini or small.
    layers
        Layers to write; all of them.
    dtype
        float32, bfloat16, float16 or float64.
    """
    from archer.bench.checkpoint import config_of, write_checkpoint
    from archer.bench.repeating import check_counts
    from archer.costs.shapes import published
    from archer.machine.devices import DTYPES

    known = published(shape)
    if dtype not in DTYPES:
        raise BadRequest(f"There is no dtype {dtype!r} here. Choose one of {', '.join(DTYPES)}.")
    if layers is not None:
        check_counts(layers=layers)
        known = replace(known, shape=replace(known.shape, layers=layers))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_checkpoint(folder, config_of(known), dtype=DTYPES[dtype])
    except OSError as error:
        raise BadRequest(f"{folder} cannot be written: {reason_of(error)}.") from error
    write_line(str(folder))
    return 0
