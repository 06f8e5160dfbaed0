"""`archer demo`: two methods solve a problem side by side, why that matters, and what is known of four."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import product
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console

from archer.cli.numbers import Positive
from archer.cli.output import announce, write_grid, write_line, write_lines

if TYPE_CHECKING:
    from archer.judge import Judge
    from archer.model import Model
    from archer.results.completion import Completion
    from archer.results.trace import Update
    from archer.tasks.base import CodeTask, Sample, Task

EXAMPLE = """\
Write a function to check if n is equal to m: if so decrease n by 7, else take the digit sum of n.
assert apply(37, 44) == 10
assert apply(-6, -5) == 6
def apply(n, m):"""
"""A problem of the dev split, chosen because a correction changes what its hidden tests say."""
TASK = "pocket-dev"
SIDE_BY_SIDE = ("llada-confidence", "archer-doubt")
JUDGED = ("saber", "archer-doubt", "archer", "llada-confidence", "fast-dllm-parallel")
METHODS = ("llada-confidence", "saber", "archer", "archer-doubt")
PROBLEMS = 3
PAUSE = 0.08
"""Seconds per drawn update: the model is faster than the eye."""


def demo(
    kind: Literal["functions", "sudoku"] = "functions", /, *, problems: Positive | None = None
) -> int:
    """Watch a bundled model solve a problem, then see how methods compare. Takes less than a minute.

    Args:
        kind: functions, a short program is written; sudoku, a grid is filled and a digit taken back.
        problems: Number of problems to time, 3 unless you say otherwise; of grids to fill, 20.
    """
    if kind == "sudoku":
        from archer.cli.demo_sudoku import play

        return play(problems)
    announce("Loading the model that comes with Archer ...")
    from archer.model import load
    from archer.tasks import open_task

    model = load("pocket", device="cpu", dtype="float32")
    announce("It is given this problem:")
    write_lines("\n".join(("", *(f"  {line}" for line in EXAMPLE.splitlines()), "")))
    sides = _solve(model)
    task = open_task(TASK)
    _judge(model, task, sides)
    samples = task.samples()[: problems or PROBLEMS]
    counted = f"{len(samples)} problem{'s' if len(samples) > 1 else ''}"
    announce(f"Timing {len(METHODS)} methods on {counted} ...")
    seconds = _timed(model, [sample.messages[0]["content"] for sample in samples])
    write_line("")
    _show(seconds, len(samples))
    return 0


@dataclass(frozen=True)
class Correction:
    """A text token that became another one."""

    at: int
    before: int
    written: int
    """The update that wrote it."""
    after: int
    update: int
    """The update that wrote the other one."""


def last_correction(updates: Iterable[Update], ends: frozenset[int]) -> Correction | None:
    """The last text token that was replaced by a different one; end marks are no text."""
    standing: dict[int, tuple[int, int]] = {}
    correction = None
    for update in updates:
        for change in (*update.accepted, *update.replaced):
            before, written = standing.get(change.at, (change.token, 0))
            if before != change.token and not {before, change.token} & ends:
                correction = Correction(change.at, before, written, change.token, update.update)
            standing[change.at] = change.token, update.update
    return correction


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
        self.updates += updates(step.record)

    @property
    def finished(self) -> Completion:
        assert self.done is not None
        return self.done


def _solve(model: Model) -> list[Side]:
    from archer.cli.live_run import console_to_draw_on

    sides = [Side(model, method) for method in SIDE_BY_SIDE]
    console = console_to_draw_on()
    for _ in _race(sides) if console is None else _watched(sides, console):
        pass
    for side in sides:
        write_line(f"{side.method} wrote")
        write_lines("\n".join(f"  {line}" for line in _program(side.finished.text).splitlines()))
        write_line(
            f"in {side.finished.updates} updates: {side.finished.full_passes} over prompt and response, "
            f"{side.finished.cached_passes} over the response alone, {side.seconds:.2f} s."
        )
        write_line("")
    return sides


def _program(text: str | None) -> str:
    return EXAMPLE.splitlines()[-1] + (text or "")


def _judge(model: Model, task: Task, sides: Sequence[Side]) -> None:
    """What the last correction was good for, and who is right on the hidden tests."""
    from archer.judge import Judge, NoSandbox
    from archer.tasks.base import CodeTask

    assert isinstance(task, CodeTask)
    written = {side.method: side.finished.text or "" for side in sides}
    announce(f"The same problem, by {len(JUDGED)} methods, and its hidden tests ...")
    for method in JUDGED:
        if method not in written:
            written[method] = model.generate(EXAMPLE, method)[0].text or ""
    (sample,) = (each for each in task.samples() if each.messages[0]["content"] == EXAMPLE)
    with ExitStack() as stack:
        try:
            judge = stack.enter_context(Judge(task.limits, workers=1))
        except NoSandbox as error:
            write_line(f"What they wrote is not run: {error}")
            write_line("")
            return
        tests = Tests(judge, task, sample)
        write_line("")
        _tell(sides[-1], tests)
        rows = [(name, *tests.verdicts(written[name])) for name in JUDGED]
    write_grid(("on this problem", "visible tests", "hidden tests"), rows)
    write_line("")
    write_line("One problem, chosen to show this. The evidence is the table below.")
    write_line("")


@dataclass(frozen=True)
class Tests:
    """The tests of one problem: those that the model was shown, and the hidden ones."""

    judge: Judge
    task: CodeTask
    sample: Sample

    def verdicts(self, text: str) -> tuple[str, str]:
        """What the visible ones say of a response, and the hidden ones."""
        failed = (self.failed(text, each) for each in ("visible", "hidden"))
        visible, hidden = ("wrong" if each else "right" for each in failed)
        return visible, hidden

    def failed(self, text: str, which: Literal["visible", "hidden"]) -> str | None:
        """The first assert that a response fails."""
        from archer.judge import FunctionCheck

        program = self.task.extract(text, self.sample, "as_published")
        (whole,) = self.task.checks(self.sample, program, "base", "as_published")
        assert isinstance(whole, FunctionCheck)
        for line in self.sample.row[which]:
            if self.judge.grade(replace(whole, test=line)).outcome != "pass":
                return str(line)
        return None


def _tell(side: Side, tests: Tests) -> None:
    """The correction that decided, and what the tests say of the response without it."""
    language, done = side.request.language, side.finished
    changed = last_correction(side.updates, language.ends)
    assert language.text is not None
    if changed is None:
        write_line(f"{side.method} took no word back to write another one there.")
        write_line("")
        return
    old, new = (language.text.piece(token).strip() for token in (changed.before, changed.after))
    without = list(done.tokens)
    without[changed.at] = changed.before
    text = language.text.decode(language.visible(without))
    write_line(
        f"{side.method} wrote {old!r} at update {changed.written}, took it back, and wrote {new!r} there at "
        f"update {changed.update} of {done.updates}. With {old!r} it would end in"
    )
    *_, last = text.strip().split("\n")
    write_line(f"  {last.strip()}")
    write_line(_why(tests.failed(text, "visible"), tests.failed(text, "hidden")))
    write_line("")


def _why(visible: str | None, hidden: str | None) -> str:
    if visible is not None:
        return f"which fails what the model was shown: {visible}."
    if hidden is not None:
        return f"which passes what the model was shown, and fails a hidden test: {hidden}."
    return "which passes all tests as well: here they see no difference."


def _race(sides: Sequence[Side]) -> Iterator[Side]:
    """The next update of whoever has computed least so far."""
    while running := [side for side in sides if side.done is None]:
        side = min(running, key=lambda each: each.seconds)
        side.advance()
        yield side


def _watched(sides: Sequence[Side], console: Console) -> Iterator[Side]:
    from archer.cli.live_run import view_of
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
    runs: Iterable[tuple[str, str]] = list(product(prompts, METHODS))
    if sys.stdout.isatty():
        from rich.progress import track

        runs = track(runs, description="decoding", transient=True)
    for prompt, method in runs:
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
