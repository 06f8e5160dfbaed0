"""Tokens per second against the number of rows decoded together.

Axes: B rows, P prompt columns, G response columns.

Every row holds the same prompt and makes its own first pass, so a batch of B is exactly B times the work of
one, and finishes at once.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from archer.bench.facts import Result
from archer.bench.repeating import interleaved, spread
from archer.bench.subject import Subject, some_prompt
from archer.engine.footprint import empty_store
from archer.engine.walk import steps_of
from archer.methods.build import Method
from archer.pages.tables import Field, Table, percent, table_of
from archer.passes.memory import Memory


@dataclass(frozen=True)
class DecodedBatch:
    """One batch decoded to its end."""

    updates: int
    seconds: float
    kv_bytes: int


@dataclass(frozen=True)
class BatchRow:
    """One batch size."""

    batch: int
    updates: int
    seconds: float
    spread: float
    tokens_per_second: float
    gain: float
    """Tokens per second against the first batch size."""
    kv_bytes: int
    """Keys and values kept: 2 x layers x B x KV x (P + G) x D numbers."""


def batch(
    subject: Subject, method: Method, sizes: Sequence[int], prompt: int, repeats: int
) -> list[BatchRow]:
    """One row per batch size."""
    subjects = {size: partial(_run, subject, method, size, prompt) for size in sizes}
    runs = interleaved(subjects, repeats)
    seconds = {size: statistics.median(each.seconds for each in runs[size]) for size in runs}
    rates = {size: size * method.length / seconds[size] for size in runs}
    return [
        BatchRow(
            batch=size,
            updates=samples[0].updates,
            seconds=seconds[size],
            spread=spread([each.seconds for each in samples]),
            tokens_per_second=rates[size],
            gain=rates[size] / rates[sizes[0]],
            kv_bytes=samples[0].kv_bytes,
        )
        for size, samples in runs.items()
    ]


def _run(subject: Subject, method: Method, size: int, prompt: int) -> DecodedBatch:
    state = method.decoder.start(some_prompt(subject, prompt, rows=size), method.length)
    canvas = method.decoder.canvas(state)
    store = empty_store(subject.network, canvas.rows, canvas.columns)
    updates, seconds, kv_bytes = 0, 0.0, 0
    for step in steps_of(subject.network, method, state, Memory.blank(store, canvas)):
        updates += 1
        seconds += sum(call.seconds for call in step.calls) + step.control
        kv_bytes = step.memory.store.keys.nbytes + step.memory.store.values.nbytes
    return DecodedBatch(updates, seconds, kv_bytes)


def table(result: Result) -> Table:
    fields = (
        Field("batch", "rows"),
        Field("updates"),
        Field("seconds"),
        Field("tokens_per_second", "tokens/s", 1),
        Field("gain"),
        Field("K/V MiB", digits=1, of=lambda row: row["kv_bytes"] / (1 << 20)),
        percent("spread", "spread"),
    )
    return table_of("Rows decoded together", fields, result["rows"])
