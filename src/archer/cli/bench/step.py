"""`archer bench step`: what one update costs with and without the prompt's cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from archer.cli.bench.options import SubjectOptions, facts
from archer.cli.bench.tables import Table, write_machine
from archer.cli.output import write_json, write_line
from archer.cli.whole import Whole

if TYPE_CHECKING:
    from archer.bench.step import Row

DEFAULT_SUBJECT = SubjectOptions()
DEFAULT_SHAPE = "llada-8b"
COLUMNS = (
    "prompt",
    "full ms",
    "cached ms",
    "naive ms",
    "speedup",
    "limit",
    "fraction",
    "limit naive",
    "control",
    "spread",
)
LIBRARY_COLUMNS = ("prompt", "ours ms", "all rows ms", "gain", "response ms", "gain")
WHOLE_COLUMNS = ("prompt", "full ms", "cached ms", "speedup", "limit", "fraction", "paper")


def step(
    *,
    subject: SubjectOptions = DEFAULT_SUBJECT,
    prompt: str = "128,256,512,1024,2048",
    response: Whole = 256,
    repeats: Whole = 5,
    library: bool = False,
    json: bool = False,
) -> int:
    """Time a full and a cached update from one recorded state, beside the limit by counted operations.

    Parameters
    ----------
    prompt
        Prompt lengths with commas between them.
    response
        Tokens of the response.
    repeats
        Rounds that are measured, after one that is not.
    library
        Time a full pass of the transformers library as well.
    json
        Print one JSON object instead of a table.
    """
    from archer.bench.repeating import check_counts, whole_numbers
    from archer.bench.step import measure
    from archer.bench.transformers_pass import check_library

    prompts = whole_numbers(prompt, "--prompt")
    check_counts(repeats=repeats)
    if library:
        check_library()
    opened = subject.open(DEFAULT_SHAPE, max(prompts), response)
    told = facts("step", opened, response=response, repeats=repeats)
    rows = measure(opened, prompts, response, repeats, library=library)
    if json:
        write_json(told | {"rows": [row.as_dict() for row in rows]})
        return 0
    write_machine(told["machine"])
    write_line(f"{opened.name}, {told['layers']} of {opened.depth} layers, response {response}")
    shown = _show(rows)
    _show_whole(shown)
    _show_library(shown)
    return 0


def _show(rows: Iterator[Row]) -> list[Row]:
    table, shown = Table(COLUMNS), []
    for row in rows:
        made = row.figures
        times = (made.full_ms, made.cached_ms, made.naive_ms)
        ratios = (made.speedup, made.limit, made.fraction, made.limit_naive)
        table.row(row.prompt, *times, *ratios, row.control, max(row.spread.values()))
        shown.append(row)
    _warn(row.figures.fraction for row in shown)
    return shown


def _warn(fractions: Iterable[float]) -> None:
    from archer.bench.report import noise

    if told := noise(fractions):
        write_line(told)


def _show_whole(rows: list[Row]) -> None:
    """The same at full depth, where at least two layers were run."""
    whole = [(row.prompt, row.whole, row.paper) for row in rows if row.whole is not None]
    if not whole:
        return
    write_line("")
    write_line(f"extrapolated to {whole[0][1].layers} layers")
    table = Table(WHOLE_COLUMNS)
    for prompt, made, paper in whole:
        ratios = (made.speedup, made.limit, made.fraction, paper)
        table.row(prompt, made.full_ms, made.cached_ms, *ratios)
    _warn(made.fraction for _, made, _ in whole)


def _show_library(rows: list[Row]) -> None:
    timed = [(row.prompt, row.library) for row in rows if row.library is not None]
    if not timed:
        return
    write_line("")
    write_line("a full pass of the transformers library, without the update")
    table = Table(LIBRARY_COLUMNS)
    for prompt, made in timed:
        theirs = (made.all_ms, made.gain_all, made.response_ms, made.gain_response)
        table.row(prompt, made.ours_ms, *theirs)
