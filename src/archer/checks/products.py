"""Which way of keeping weights multiplies fastest on this processor: a large product, each way in turn.

One product says which way is faster, not by how much a model is: attention, norms and a small network's
dispatch stay what they are.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import torch
from torch.nn import functional as F

from archer.bench.repeating import interleaved
from archer.network.linear import Linear
from archer.network.rounded import Operator, Trials
from archer.network.shape import Kept, Scheme

ROWS, SIZE = 256, 2048
ROUNDS = 5
PLAIN, HALF = "float32", "bfloat16"


@dataclass(frozen=True)
class Products:
    """How long a product takes, and whether there are products in whole numbers at all."""

    milliseconds: Mapping[str, float]
    """By way: float32, int8, and bfloat16 and w8a8 where they are safe."""
    operator: str | None
    """What makes products in whole numbers."""
    refusal: str | None
    """Why there are none."""

    @property
    def fastest(self) -> str:
        return min(self.milliseconds, key=self.milliseconds.__getitem__)

    def __str__(self) -> str:
        base = self.milliseconds[PLAIN]
        beside = ", ".join(
            f"{name} {base / each:.1f} x"
            for name, each in sorted(self.milliseconds.items(), key=lambda item: item[1])
        )
        return f"{self.fastest} ({beside}; a product of {ROWS} rows)"


def time_products(trials: Trials, *, bf16: bool, rounds: int = ROUNDS) -> Products:
    """Measure here; what is not safe is left out."""
    generator = torch.Generator().manual_seed(0)
    rows, weights = (torch.randn((each, SIZE), generator=generator) for each in (ROWS, SIZE))
    ways: dict[str, Callable[[], object]] = {PLAIN: partial(F.linear, rows, weights)}
    if bf16:
        ways[HALF] = partial(F.linear, rows.bfloat16(), weights.bfloat16())
    kept = {Scheme.INT8.value: Kept.SMALL}
    if trials.operator is not None:
        kept[Scheme.W8A8.value] = Kept.WHOLE
    for name, how in kept.items():
        linear = Linear.empty(SIZE, SIZE, kept=how)
        linear.fill(weights)
        if how is Kept.WHOLE and trials.operator is Operator.PACKED:
            linear.pack()
        ways[name] = partial(linear, rows)
    with torch.inference_mode():
        taken = interleaved({name: partial(_seconds, way) for name, way in ways.items()}, rounds)
    medians = {name: 1e3 * statistics.median(each) for name, each in taken.items()}
    operator = None if trials.operator is None else trials.operator.value
    return Products(medians, operator, trials.refusal)


def _seconds(way: Callable[[], object]) -> float:
    start = perf_counter()
    way()
    return perf_counter() - start
