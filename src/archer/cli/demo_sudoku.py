"""`archer demo sudoku`: a grid is filled, a wrong digit is taken back, and methods are compared."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from archer.cli.demo import last_correction
from archer.cli.live_run import console_to_draw_on
from archer.cli.output import announce, write_grid, write_line
from archer.model import Model, load
from archer.pocket import grids
from archer.results.trace import Update, updates
from archer.terminal.grid import GridView
from archer.terminal.live import Screen

if TYPE_CHECKING:
    from archer.results.completion import Completion

MODEL = "pocket-sudoku"
PUZZLE = "sudoku-dev-9-0"
"""A puzzle of the dev split, chosen because a wrong digit is taken back and the grid is solved."""
METHOD = "archer-doubt"
METHODS = ("llada-confidence", "fast-dllm-parallel", "saber", "archer", "archer-doubt")
PROBLEMS = 20
PAUSE = 0.4
"""Seconds per drawn update."""


def play(problems: int | None) -> int:
    """The demo; `problems` grids are filled by every method."""
    announce("Loading the model that comes with Archer ...")
    model = load(MODEL, device="cpu", dtype="float32")
    game = Game(model, puzzle())
    console = console_to_draw_on()
    if console is not None:
        game.watch(console)
    write_line(f"{METHOD} filled this grid in {game.done.updates} updates:")
    write_line("")
    for line in side_by_side(game):
        write_line(f"  {line.plain}")
    write_line("")
    write_line(game.story())
    write_line(
        "Every row, column and box has every digit: the grid is solved."
        if grids.solves(grids.cells(game.done.whole), game.puzzle.givens)
        else "The grid is not solved."
    )
    write_line("")
    count = PROBLEMS if problems is None else problems
    puzzles = grids.load("dev")[:count]
    announce(
        f"Filling {len(puzzles)} grid{'s' if len(puzzles) > 1 else ''} by {len(METHODS)} methods ..."
    )
    write_line("")
    rows = [measured(model, method, puzzles) for method in METHODS]
    write_grid(
        ("method", "grids solved", "updates", "digits taken back"), rows, [False, True, True, True]
    )
    write_line("")
    write_line(
        f"The first {len(puzzles)} puzzles of the dev split. Each has one solution, and a grid counts if "
        "all of it is right."
    )
    write_line("Next: archer eval pocket-sudoku --model pocket-sudoku, archer methods.")
    return 0


def puzzle() -> grids.Puzzle:
    """The puzzle of the demo."""
    return next(each for each in grids.load("dev") if each.name == PUZZLE)


@dataclass
class Game:
    """A puzzle and all updates that filled it."""

    model: Model
    puzzle: grids.Puzzle

    def __post_init__(self) -> None:
        prompt = grids.fill(self.puzzle.givens)
        self.request = self.model.request(prompt, METHOD)
        stream = self.model.stream(prompt, METHOD)
        self.history: list[Update] = [update for step in stream for update in updates(step.record)]
        self.done: Completion
        (self.done,) = stream.finish()

    def view(self) -> GridView:
        """The grid before its first update."""
        (form,), settings = self.request.prompts, self.request.method.settings
        return GridView(
            self.puzzle.givens,
            form.given or (),
            self.piece,
            title=f"{METHOD} · {self.model.name}",
            nats=settings.get("nats"),
        )

    def watch(self, console: Console) -> None:
        """Draw it update by update, slowly enough for the eye."""
        view = self.view()
        with Screen(view, console) as screen:
            screen.draw()
            for update in self.history:
                time.sleep(PAUSE)
                view.follow(update)
                screen.draw(now=True)
            time.sleep(PAUSE)

    def piece(self, token: int) -> str:
        """The text of a token."""
        assert self.model.text is not None
        return self.model.text.piece(token)

    def story(self) -> str:
        """The last correction in words."""
        correction = last_correction(self.history, self.model.end_ids)
        if correction is None:
            return f"{METHOD} took no digit back to write another one there."
        before, after = self.piece(correction.before), self.piece(correction.after)
        view = self.view()
        place = next(each for each in range(view.size**2) if view.at(each) == correction.at)
        row, column = divmod(place, view.size)
        return (
            f"{METHOD} wrote {before} in row {row + 1}, column {column + 1} at update {correction.written}, "
            f"took it back, and wrote {after} there at update {correction.update}."
        )


def side_by_side(game: Game) -> list[Text]:
    """The givens and the solution."""
    start, end = game.view(), game.view()
    for update in game.history:
        end.follow(update)
    end.row.fresh = set()
    pairs = zip(start.drawn(plain=False), end.drawn(plain=False), strict=True)
    return [Text.assemble(left, "   ", right) for left, right in pairs]


def measured(model: Model, method: str, puzzles: Sequence[grids.Puzzle]) -> tuple[str, ...]:
    """A row of the table."""
    completions = model.generate([grids.fill(each.givens) for each in puzzles], method)
    solved = sum(
        grids.solves(grids.cells(done.whole), each.givens)
        for done, each in zip(completions, puzzles, strict=True)
    )
    updates_per_grid = fmean(done.updates for done in completions)
    taken_back = fmean(done.revised_text for done in completions)
    share = f"{solved} of {len(puzzles)}"
    return method, share, f"{updates_per_grid:.1f}", f"{taken_back:.1f}"
