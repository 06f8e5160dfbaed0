"""`archer demo`: two methods solve a problem side by side, then what is known about four of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from rich.console import Console

from archer.cli.output import write_grid, write_line
from archer.cli.whole import Whole
from archer.errors import BadRequest

if TYPE_CHECKING:
    from archer.model import Model
    from archer.results.completion import Completion
    from archer.results.trace import Update

EXAMPLE = """\
Write a python function to find the strings in data that start with 'o' joined by 'd'.
assert compute(['tile', 'idea']) == ''
assert compute(['bee', 'open']) == 'open'
def compute(data):"""
"""A problem of the dev split in which a token is written, taken back and changed."""
SIDE_BY_SIDE = ("saber", "archer-doubt")
METHODS = ("llada-confidence", "saber", "archer", "archer-doubt")
PROBLEMS = 3
PAUSE = 0.08
"""Seconds per drawn update: the model is faster than the eye."""


def demo(*, problems: Whole = PROBLEMS) -> int:
    """Watch the bundled model solve a problem, then see how methods compare. Takes less than a minute.

    Parameters
    ----------
    problems
        How many problems are timed here.
    """
    from archer.model import load
    from archer.tasks import open_task

    if problems < 1:
        raise BadRequest(f"--problems takes a number above 0, not {problems}.")
    model = load("pocket", device="cpu", dtype="float32")
    write_line("The model that comes with Archer is given this problem:")
    write_line("")
    for line in EXAMPLE.splitlines():
        write_line(f"  {line}")
    write_line("")
    _solve(model)
    samples = open_task("pocket-dev").samples()[:problems]
    seconds = _timed(model, [sample.messages[0]["content"] for sample in samples])
    write_line("")
    _show(seconds, len(samples))
    return 0


@dataclass
class Side:
    """One method on its way through the problem."""

    model: Model
    method: str
    updates: list[Update] = field(default_factory=list)
    seconds: float = 0.0
    """Its own computing time; on a screen the two are drawn by it, as if each had a machine of its own."""
    done: Completion | None = None

    def __post_init__(self) -> None:
        self.request = self.model.request(EXAMPLE, self.method)
        self.stream = self.model.stream(EXAMPLE, self.method)

    def advance(self) -> None:
        from archer.results.trace import updates

        step = next(self.stream, None)
        if step is None:
            (self.done,) = self.stream.finish()
            return
        self.seconds += step.control + sum(call.seconds for call in step.calls)
        self.updates += updates(step)

    def story(self) -> str | None:
        """The first token that became another one, in a sentence."""
        assert self.model.text is not None
        written: dict[int, Update] = {}
        for update in self.updates:
            for change in (*update.accepted, *update.replaced):
                first = written.setdefault(change.at, update)
                before = next(each.token for each in first.accepted if each.at == change.at)
                ends = self.model.end_ids
                if before != change.token and not {before, change.token} & ends:
                    old, new = (self.model.text.piece(id) for id in (before, change.token))
                    return (
                        f"{self.method} wrote {old!r} at update {first.update}, took it back, and "
                        f"wrote {new!r} there at update {update.update}."
                    )
        return None


def _solve(model: Model) -> None:
    sides = [Side(model, method) for method in SIDE_BY_SIDE]
    console = Console(highlight=False) if sys.stdout.isatty() else None
    drawn = console is not None and not console.is_dumb_terminal
    for _ in _watched(sides, console) if drawn and console is not None else _race(sides):
        pass
    for side in sides:
        assert side.done is not None
        write_line(f"{side.method} wrote")
        for line in f"{EXAMPLE.splitlines()[-1]}{side.done.text}".splitlines():
            write_line(f"  {line}")
        write_line(
            f"in {side.done.updates} updates: {side.done.full_passes} over prompt and response, "
            f"{side.done.cached_passes} over the response alone, {side.seconds:.2f} s."
        )
        told = side.story()
        if told:
            write_line(told)
        write_line("")


def _race(sides: Sequence[Side]) -> Iterator[Side]:
    """The next update of whoever has computed least so far."""
    while running := [side for side in sides if side.done is None]:
        side = min(running, key=lambda each: each.seconds)
        side.advance()
        yield side


def _watched(sides: Sequence[Side], console: Console) -> Iterator[Side]:
    from archer.cli.running import view_of
    from archer.terminal.live import Beside, Screen

    views = [view_of(side.model, side.request) for side in sides]
    with Screen(Beside(*views), console) as screen:
        screen.draw()
        for side in _race(sides):
            if side.done is None:
                views[sides.index(side)].follow(side.updates[-1])
                screen.draw(now=True)
                time.sleep(PAUSE)
            yield side


def _timed(model: Model, prompts: Sequence[str]) -> dict[str, float]:
    """Mean seconds per problem; the methods take turns, so that a busy machine slows all of them."""
    for method in METHODS:
        next(model.stream(prompts[0], method))
    seconds: dict[str, list[float]] = {method: [] for method in METHODS}
    for prompt in prompts:
        for method in METHODS:
            (done,) = model.generate(prompt, method)
            seconds[method].append(done.seconds.total)
    return {method: fmean(each) for method, each in seconds.items()}


def _show(seconds: Mapping[str, float], problems: int) -> None:
    from archer.pocket.results import published

    known = published()
    rows = [_row(known["methods"][name], seconds[name], seconds[METHODS[0]]) for name in METHODS]
    write_grid(
        ("method", "visible tests", "hidden tests", "full", "cached", "seconds", "speed"),
        rows,
        [False, True, True, True, True, True, True],
    )
    write_line("")
    write_line(
        f"Tests: share of {known['n']} problems solved, with 95 % intervals, measured beforehand with "
        f"`{known['command']}`. Full and cached: passes per problem, from the same run."
    )
    write_line(
        f"Seconds and speed: measured just now, the mean of {problems} "
        f"problem{'s' if problems > 1 else ''}, on this machine."
    )
    write_line("A full pass computes prompt and response, a cached pass the response alone.")
    write_line("Archer is Saber with cached passes: faster, but it solves somewhat fewer problems.")
    write_line("archer-doubt, the default, takes back only tokens that have lost confidence.")
    write_line("Next: archer generate --help, archer eval pocket --limit 20, archer methods.")


def _row(known: Mapping[str, Any], seconds: float, slowest: float) -> tuple[str, ...]:
    return (
        known["arm"],
        *(_share(known[suite]) for suite in ("visible", "hidden")),
        f"{known['full_passes']:.0f}",
        f"{known['cached_passes']:.0f}",
        f"{seconds:.2f}",
        f"{slowest / seconds:.2f}x",
    )


def _share(score: Mapping[str, float]) -> str:
    return f"{score['score']:.1f} % [{score['low']:.0f}, {score['high']:.0f}]"
