"""`PYTHONPATH=tools python -m pocket_training`: make a bundled model anew, from nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from archer.cli import command, main
from archer.cli.messages import complain
from archer.cli.numbers import Whole
from archer.cli.output import write_line
from archer.errors import BadRequest
from pocket_training.export import export as exported
from pocket_training.loop import train as trained
from pocket_training.recipe import Recipe
from pocket_training.variants import variant


def run(argv: Sequence[str] | None = None) -> int:
    """Train as the arguments say; the exit code."""
    made = command("python -m pocket_training", "Train one of the bundled models.")
    made.default(train)
    return main(argv, made)


def train(
    model: str,
    *,
    out: Path = Path("training"),
    minutes: float = 120.0,
    workers: Whole = 1,
    threads: Whole = 1,
    seed: Whole = 0,
    compiled: bool = False,
    export: Path | None = None,
) -> int:
    """Train one of the bundled models. The same command again goes on from the last checkpoint.

    Parameters
    ----------
    model
        pocket, pocket-dream (Dream's architecture), pocket-blind (its prompt does not see the response) or
        pocket-sudoku (it fills grids).
    out
        Folder for checkpoints, the log and samples of what the model writes.
    minutes
        Computing time over all runs in the folder; learning rate and mixture follow it.
    workers
        Processes that train side by side, their weights averaged every few thousand sequences.
    threads
        Processor threads of each. Two processes are faster than two threads.
    seed
        Of the weights, the problems and the masks.
    compiled
        Compile the pass: a quarter faster, needs a C++ compiler.
    export
        Write the model to this new folder at the end, for --model.
    """
    variant(model)
    if export is not None and export.exists():
        raise BadRequest(f"{export} exists already. Name a new folder by --export.")
    recipe = Recipe(model=model, seed=seed, compiled=compiled, workers=workers)
    path = trained(out, minutes, threads, recipe, lambda line: complain(_line_text(line)))
    write_line(f"The last checkpoint is {path}.")
    if export is not None:
        exported(path, export)
        write_line(f"The model is in {export}.")
    return 0


def _line_text(line: dict[str, Any]) -> str:
    place = f"{line['minutes']:.1f} min, {line['sequences']:,} sequences"
    if "base" in line:
        return f"{place}: dev Pass@1 {line['base']:.1%} base, {line['extended']:.1%} extended"
    if "solved" in line:
        return (
            f"{place}: dev grids {line['solved']:.1%}, {line['at_once']:.1%} several digits at once"
        )
    return f"{place}: loss {line['loss']:.3f}, {line['speed']:.0f} sequences/s"


if __name__ == "__main__":
    sys.exit(run())
