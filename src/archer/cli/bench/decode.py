"""`archer bench decode`: whole trajectories, methods side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from archer.cli.bench.options import SubjectOptions, facts
from archer.cli.bench.tables import Table, write_machine
from archer.cli.output import write_json, write_line
from archer.cli.whole import Whole

if TYPE_CHECKING:
    from archer.bench.decode import Row

DEFAULT_SUBJECT = SubjectOptions()
DEFAULT_SHAPE = "small"
METHODS = "saber,archer,llada-confidence"
COLUMNS = ("method", "updates", "full", "cached", "reused", "seconds", "spread")
VERSUS_COLUMNS = ("method", "speedup", "predicted", "error", "by eta", "error")


def decode(
    *,
    subject: SubjectOptions = DEFAULT_SUBJECT,
    methods: str = METHODS,
    prompt: Whole = 512,
    response: Whole = 256,
    prompts: Whole = 1,
    repeats: Whole = 3,
    json: bool = False,
) -> int:
    """Decode the same random prompts with every method, and compare with the cost model.

    Parameters
    ----------
    methods
        Methods with commas between them; speedups are relative to saber and llada-confidence.
    prompt
        Tokens per prompt.
    response
        Tokens of the response.
    prompts
        How many prompts.
    repeats
        Rounds that are measured, after some updates that are not.
    json
        Print one JSON object instead of a table.
    """
    from archer.bench import decode as bench
    from archer.bench.repeating import check_counts
    from archer.methods.build import build

    check_counts(prompts=prompts, repeats=repeats)
    chosen = [build(name.strip(), {"length": response}) for name in methods.split(",")]
    opened = subject.open(DEFAULT_SHAPE, prompt, response)
    sizes = {"prompt": prompt, "response": response, "prompts": prompts, "repeats": repeats}
    told = facts("decode", opened, **sizes)
    rows = bench.decode(opened, chosen, prompt, prompts, repeats)
    if json:
        write_json(told | {"rows": [row.as_dict() for row in rows]})
        return 0
    write_machine(told["machine"])
    _show(rows)
    return 0


def _show(rows: Sequence[Row]) -> None:
    width = max(len(row.method) for row in rows)
    table = Table(COLUMNS, width)
    for row in rows:
        counts = (row.updates, row.full, row.cached, row.reused)
        table.row(row.method, *counts, row.seconds, row.spread)
    for reference in rows[0].over:
        write_line("")
        write_line(f"over {reference}")
        table = Table(VERSUS_COLUMNS, width)
        for row in rows:
            over = row.over[reference]
            errors = (over.error, over.predicted_eta, over.error_eta)
            table.row(row.method, over.speedup, over.predicted, *errors)
