"""`archer demo`: two methods side by side on a model that needs no download."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from archer.cli.output import write_line

if TYPE_CHECKING:
    from archer.completion import Completion

METHODS = ("archer", "saber")
PROMPT = tuple(range(3, 403))
LENGTH = 64
WARM_UP = 8
"""Tokens written by each method before anything is timed."""
PAUSE = 0.08
"""Seconds per drawn update: the tiny model is faster than the eye."""


def demo() -> int:
    """See a response being denoised by archer and by saber, without a download."""
    from archer.cli.options import use_threads
    from archer.cli.random_model import write_random_model
    from archer.cli.running import run
    from archer.model import load

    write_line("This model is tiny and its weights are random, so the ids it writes mean nothing.")
    write_line("What the demo shows is how they come about: placed, taken back, placed again.")
    write_line("")
    use_threads(1)
    live = Console() if sys.stdout.isatty() else None
    done: dict[str, Completion] = {}
    with TemporaryDirectory() as folder:
        model = load(write_random_model(Path(folder)), device="cpu", dtype="float32")
        model.name = "random weights"
        for name in METHODS:
            model.generate(PROMPT, name, length=WARM_UP)
        for name in METHODS:
            request = model.request(PROMPT, name, length=LENGTH)
            done[name] = run(model, request, console=live, pause=PAUSE if live else 0.0)[0]
    _compare(done)
    return 0


def _compare(done: dict[str, Completion]) -> None:
    table = Table("method", "updates", "full", "cached", "seconds", box=None, pad_edge=False)
    for name, each in done.items():
        counts = (each.updates, each.full_passes, each.cached_passes)
        table.add_row(name, *map(str, counts), f"{each.seconds.total:.2f}")
    Console(highlight=False).print(table)
    write_line("")
    write_line(
        f"A full pass computes prompt and response ({len(PROMPT)} + {LENGTH} tokens), a cached"
    )
    write_line("pass the response alone.")
