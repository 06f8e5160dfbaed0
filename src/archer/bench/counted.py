"""Tables of what counting says about models and GPUs that are not here; nothing in them is measured."""

from __future__ import annotations

from archer.bench.step import PAPER, PAPER_SETTING
from archer.costs.counting import count_passes
from archer.costs.roofline import GPUS, floors
from archer.costs.shapes import published
from archer.pages.tables import Field, Table, Value, table_of

TERA = 1e12


def growth() -> Table:
    """Operations at full depth by prompt length, beside the paper's measured speedups."""
    rows = []
    for name in ("llada-8b", "dream-7b"):
        known = published(name)
        for prompt, paper in PAPER.items():
            counts = count_passes(known.shape, prompt, PAPER_SETTING[1])
            told = paper if name == PAPER_SETTING[0] else None
            passes = {"naive": counts.naive, "full": counts.full, "cached": counts.cached}
            rows.append({"shape": name, "prompt": prompt, "paper": told, **passes})
    fields = (
        Field("shape", "shape"),
        Field("prompt", "prompt"),
        Field("naive TF", lambda row: row["naive"] / TERA),
        Field("full TF", lambda row: row["full"] / TERA),
        Field("cached TF", lambda row: row["cached"] / TERA),
        Field("limit", lambda row: Value(row["full"] / row["cached"], paper=row["paper"])),
        Field("limit, naive", lambda row: row["naive"] / row["cached"]),
    )
    return table_of("Operations by prompt length", rows, fields)


def roofline(prompt: int = 512, response: int = 256, rows: int = 8) -> Table:
    """The least times of one row and of a batch, by data sheet."""
    known = published("llada-8b")
    sizes = (known.shape, prompt, response)
    times = []
    for gpu in GPUS:
        full, cached = floors(gpu, *sizes)
        _, many = floors(gpu, *sizes, rows=rows)
        times.append({"gpu": gpu.name, "full": full, "cached": cached, "many": many})
    fields = (
        Field("GPU", "gpu"),
        Field("full ms", lambda row: 1e3 * row["full"].seconds, 1),
        Field("cached ms", lambda row: 1e3 * row["cached"].seconds, 1),
        Field("cached is bound by", lambda row: row["cached"].limit),
        Field(f"cached, {rows} rows, ms", lambda row: 1e3 * row["many"].seconds, 1),
    )
    return table_of("Least times", times, fields)
