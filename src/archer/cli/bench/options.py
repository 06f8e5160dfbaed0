"""What the measurements share: their options, and how a result is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from archer.cli.numbers import MaybePositive, positive
from archer.cli.options import use_threads
from archer.cli.output import emit, write_line, write_table

if TYPE_CHECKING:
    from archer.bench.facts import Result
    from archer.bench.subject import Subject
    from archer.pages.tables import Table

PromptLength = Annotated[int, Parameter(converter=positive, help="Tokens of the prompt.")]
ResponseLength = Annotated[int, Parameter(converter=positive, help="Tokens of the response.")]
Repeats = Annotated[
    int,
    Parameter(converter=positive, help="Rounds to measure, after a warm-up round."),
]


@Parameter(name="*", group="Subject")
@dataclass(frozen=True)
class SubjectOptions:
    """What is measured, and where it runs."""

    shape: str | None = None
    """llada-8b, dream-7b, llada-moe-7b, llada2-mini or small with random weights; or a model."""
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


def emit_tables(
    result: Result, tables: Callable[[Result], Table | Iterable[Table]], *, json: bool
) -> int:
    """A result as one JSON object, or as its tables under what was measured on what."""
    from archer.bench.facts import setting
    from archer.pages.tables import Table

    def show() -> None:
        write_line(setting(result))
        write_line("")
        shown = tables(result)
        for table in [shown] if isinstance(shown, Table) else shown:
            write_table(table)

    return emit(result, show, json=json)
