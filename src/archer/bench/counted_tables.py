"""Tables of what counting alone tells, to stand beside what is measured; nothing here is timed."""

from archer.costs.counting import count_passes
from archer.costs.roofline import GPUS, floors
from archer.costs.shapes import published
from archer.pages.tables import Field, Table, Value, table_of

PAPER = {128: 1.30, 256: 1.59, 512: 2.07, 1024: 3.15, 2048: 4.62}
"""Speedup of a cached step that the paper measured on LLaDA-8B with a response of 256, by prompt length."""
PAPER_SETTING = ("llada-8b", 256)
TERA = 1e12


def growth() -> Table:
    """Operations at full depth by prompt length, beside the paper's measured speedups."""
    rows = []
    for name in ("llada-8b", "dream-7b"):
        known = published(name)
        for prompt, paper in PAPER.items():
            counts = count_passes(known.shape, prompt, PAPER_SETTING[1])
            paper_value = paper if name == PAPER_SETTING[0] else None
            passes = {"naive": counts.naive, "full": counts.full, "cached": counts.cached}
            rows.append({"shape": name, "prompt": prompt, "paper": paper_value, **passes})
    fields = (
        Field("shape"),
        Field("prompt"),
        Field("naive TF", of=lambda row: row["naive"] / TERA),
        Field("full TF", of=lambda row: row["full"] / TERA),
        Field("cached TF", of=lambda row: row["cached"] / TERA),
        Field("limit", of=lambda row: Value(row["full"] / row["cached"], paper=row["paper"])),
        Field("limit, naive", of=lambda row: row["naive"] / row["cached"]),
    )
    return table_of("Operations by prompt length", fields, rows)


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
        Field("gpu", "GPU"),
        Field("full ms", digits=1, of=lambda row: 1e3 * row["full"].seconds),
        Field("cached ms", digits=1, of=lambda row: 1e3 * row["cached"].seconds),
        Field("cached is bound by", of=lambda row: row["cached"].limit),
        Field(f"cached, {rows} rows, ms", digits=1, of=lambda row: 1e3 * row["many"].seconds),
    )
    return table_of("Least times", fields, times)
