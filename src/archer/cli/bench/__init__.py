"""`archer bench`: a table of measurements, imported when one is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from archer.cli import command
from archer.cli.numbers import MaybePositive, positive
from archer.cli.options import use_threads
from archer.cli.output import announce, emit, write_line, write_table

if TYPE_CHECKING:
    from archer.bench.facts import Result
    from archer.bench.subject import Subject
    from archer.pages.tables import Table


NETWORK, SERVING = "archer.cli.bench.network", "archer.cli.bench.serving"
COMMANDS = {
    "step": (f"{NETWORK}:step", "One update, with and without the cache."),
    "profile": (f"{NETWORK}:profile", "Where the time of one update goes."),
    "decode": (f"{NETWORK}:decode", "Whole trajectories, methods side by side."),
    "batch": (f"{NETWORK}:batch", "Tokens per second by number of rows."),
    "structure": (f"{NETWORK}:structure", "What a JSON schema costs, once and per update."),
    "traffic": (f"{SERVING}:traffic", "Requests that arrive one by one."),
    "passes": (f"{SERVING}:passes", "Turns of the engine, for archer plan."),
    "load": (f"{NETWORK}:load", "Time and memory of loading a checkpoint."),
    "serve": (f"{SERVING}:serve", "A local server under load."),
    "judge": (f"{SERVING}:judge", "How fast programs are judged."),
    "checkpoint": (f"{NETWORK}:checkpoint", "Write random weights of any size, to load them."),
}
"""Name -> the function that does it, and one line about it."""

app = command("bench", commands=COMMANDS)


PromptLength = Annotated[int, Parameter(converter=positive, help="Tokens of the prompt.")]
ResponseLength = Annotated[int, Parameter(converter=positive, help="Tokens of the response.")]
Repeats = Annotated[int, Parameter(converter=positive, help="How often each is measured.")]


@Parameter(name="*", group="Subject")
@dataclass(frozen=True)
class SubjectOptions:
    """What is measured, and where it runs."""

    shape: str | None = None
    """llada-8b, dream-7b, a2d-qwen3-0.6b, a2d-qwen2-0.5b, illada-8b, sdar-4b, llada-moe-7b, llada2-mini or
    small with random weights; or a model."""
    layers: MaybePositive = None
    """Layers to run [default: 2 of a large shape (3 of llada2-mini), all of a model]."""
    device: str | None = None
    """Device, such as cpu or cuda:0 [default: the accelerator if there is one]."""
    dtype: str | None = None
    """float32, bfloat16, float16 or float64 [default: bfloat16 on an accelerator, else float32]."""
    threads: MaybePositive = None
    """CPU threads [default: one per core]."""

    def open(self, default: str, prompt: int, response: int) -> Subject:
        from archer.bench.subject import open_subject

        if self.threads is not None:
            use_threads(self.threads)
        where = {"device": self.device, "dtype": self.dtype}
        return open_subject(self.shape or default, self.layers, prompt, response, **where)


Tables = Callable[["Result"], "Table | Iterable[Table]"]


def measure_rows(
    facts: Result,
    measure: Callable[[], Iterable[Any]],
    tables: Tables,
    *,
    json: bool,
    line: Callable[[Any], str] | None = None,
) -> int:
    """Say what is measured on what, measure the rows, each told by its `line`, and show their tables."""
    from archer.bench.facts import setting, with_rows

    if not json:
        announce(setting(facts))
    rows = []
    for row in measure():
        rows.append(row)
        if line is not None and not json:
            announce(line(row))
    result = with_rows(facts, rows)
    return emit(result, lambda: _write_tables(tables(result)), json=json)


def emit_tables(result: Result, tables: Tables, *, json: bool) -> int:
    """A result as one JSON object, or as its tables under what was measured on what."""
    from archer.bench.facts import setting

    if not json:
        write_line(setting(result))
    return emit(result, lambda: _write_tables(tables(result)), json=json)


def _write_tables(tables: Table | Iterable[Table]) -> None:
    from archer.pages.tables import Table

    write_line("")
    for table in [tables] if isinstance(tables, Table) else tables:
        write_table(table)
