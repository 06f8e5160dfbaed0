"""`archer plan`: how many cards of which kind a load needs, simulated with the engine's own scheduler."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from archer.cli.messages import complain
from archer.cli.output import write_grid, write_json, write_line
from archer.cli.whole import Whole
from archer.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archer.planning.demand import Demand
    from archer.planning.pace import Pace
    from archer.planning.plan import Found, Server, Setting
    from archer.planning.shown import Table

MISSED = 1


@Parameter(name="*", group="Demand")
@dataclass(frozen=True)
class DemandOptions:
    """What will be asked."""

    rate: float | None = None
    """Requests per second [default: 1, or as the file says]."""
    prompt: str = "512"
    """Tokens of a prompt: a number, a range such as 64-3072, or a choice such as 128,512."""
    length: str = "256"
    """Tokens of a response, in the same way."""
    file: Path | None = None
    """Requests from a file instead, one JSON object per line with prompt and length; see docs/planning.md."""
    requests: Whole = 400
    """Requests that are counted; others come before and after them."""
    seed: Whole = 0
    """Which arrivals and sizes are drawn."""

    def drawn(self, before: float, after: float) -> tuple[Demand, range]:
        """The requests, and which of them count; others come for so many seconds before and after them.

        A file with its own times is taken as it is: nobody comes before or after.
        """
        from archer.planning.demand import MOST_REQUESTS, drawn, read_demand, repeated

        read = None if self.file is None else read_demand(self.file, self.rate, self.seed)
        if read is not None and read.rate is None:
            return read, range(len(read.times))
        rate = 1.0 if self.rate is None else self.rate
        first, last = (
            min(MOST_REQUESTS, math.ceil(rate * seconds)) if math.isfinite(rate) else 0
            for seconds in (before, after)
        )
        counted = self.requests if read is None else len(read.wanted)
        count = first + counted + last
        if read is None:
            coming = drawn(rate, count, self.prompt, self.length, self.seed)
        else:
            coming = repeated(read, count, first, self.seed)
        return coming, range(first, first + counted)

    def at(self, rate: float) -> Demand:
        """The requests that count, at another rate."""
        from archer.planning.demand import drawn, read_demand

        if self.file is not None:
            return read_demand(self.file, rate, self.seed)
        return drawn(rate, self.requests, self.prompt, self.length, self.seed)


@Parameter(name="*", group="Work")
@dataclass(frozen=True)
class WorkOptions:
    """How much work a request is."""

    shape: str = "llada-8b"
    """Which model's passes: a shape that archer bench knows."""
    method: str = "archer"
    """How many updates: archer, archer-doubt, saber, llada-confidence, no-rollback, no-rollback+archer."""
    radius: str | None = None
    """Radii to compare, such as 4,8,16,inf [default: the method's own]."""
    updates: float | None = None
    """Updates per token of the response, instead of what is known about the method."""
    refreshed: float | None = None
    """Fraction of the updates that make a full pass, from 0 to 1; with --updates."""

    def paces(self) -> dict[float | None, Pace]:
        """By radius."""
        from archer.planning.pace import Pace, pace

        if (self.updates is None) != (self.refreshed is None):
            raise BadRequest("Give --updates and --refreshed together, or neither.")
        if self.updates is not None and self.refreshed is not None:
            if self.radius is not None:
                raise BadRequest("--refreshed says what --radius would; leave one of them out.")
            if not (0 < self.updates <= 100 and 0 <= self.refreshed <= 1):
                raise BadRequest(
                    "--updates takes updates per token, above 0 and at most 100, and --refreshed a "
                    f"fraction of them, from 0 to 1, not {self.updates} and {self.refreshed}."
                )
            return {None: Pace(self.updates, self.refreshed)}
        if self.radius is None:
            return {None: pace(self.method, None, self.shape)}
        radii = _numbers(self.radius, "--radius", "4,8,16,inf")
        return {radius: pace(self.method, radius, self.shape) for radius in radii}


@Parameter(name="*", group="GPUs")
@dataclass(frozen=True)
class CardOptions:
    """What it runs on."""

    cards: str = "A100,H100,B200"
    """GPUs, by the beginnings of their names; all takes every GPU that is known."""
    measured: Path | None = None
    """Pass times of this machine instead, from archer bench passes --json or archer bench serve --json."""
    budget: str = "1024"
    """Columns per pass; several are compared, such as 512,1024,2048."""
    efficiency: float = 0.5
    """Fraction of a GPU's arithmetic and bandwidth that passes reach."""
    pass_ms: float = 1.0
    """Milliseconds around every pass."""
    row_ms: float = 0.3
    """Milliseconds for the decisions about a row."""

    def servers(self, work: WorkOptions) -> list[Server]:
        from archer.costs.pass_times import Fitted, Losses, Roofline
        from archer.costs.roofline import BYTES, kv_numbers, weights_held
        from archer.costs.shapes import published
        from archer.network.shape import Blocks
        from archer.planning.plan import Server
        from archer.planning.recording import read_timed

        if self.measured is not None:
            fitted = Fitted.to(read_timed(self.measured))
            return [Server("this machine", fitted)]
        if not 0 < self.efficiency <= 1:
            raise BadRequest(
                f"--efficiency takes a fraction, above 0 and at most 1, not {self.efficiency}."
            )
        if not (0 <= self.pass_ms < math.inf and 0 <= self.row_ms < math.inf):
            raise BadRequest(
                f"--pass-ms and --row-ms take milliseconds, at least 0, not {self.pass_ms} and {self.row_ms}."
            )
        known = published(work.shape)
        if isinstance(known.shape.attention, Blocks):
            raise BadRequest(
                f"{work.shape} attends block by block, and such passes cannot be planned yet."
            )
        losses = Losses(self.efficiency, self.pass_ms / 1e3, self.row_ms / 1e3)
        column = BYTES * kv_numbers(known.shape, 1)
        held = BYTES * weights_held(known.shape)
        return [
            Server.holding(
                card.name, Roofline(card, known.shape, losses), column, card.memory, held
            )
            for card in _cards(self.cards)
        ]


DEFAULT_DEMAND, DEFAULT_WORK, DEFAULT_CARDS = DemandOptions(), WorkOptions(), CardOptions()


def plan(
    *,
    demand: DemandOptions = DEFAULT_DEMAND,
    work: WorkOptions = DEFAULT_WORK,
    on: CardOptions = DEFAULT_CARDS,
    in_time: float = 0.95,
    p99: float | None = None,
    ways: Annotated[float | None, Parameter(name="--ways")] = None,
    check: Path | None = None,
    within: float = 0.2,
    figure: Path | None = None,
    json: bool = False,
) -> int:
    """Tell how many GPUs a load needs, before you buy any; nothing but the schedule is computed.

    Parameters
    ----------
    in_time
        Fraction of the requests that must end within three times the time they take alone.
    p99
        Seconds within which 99 of 100 must end as well.
    ways
        Compare ways to serve on one GPU instead, at this fraction of what serving one at a time can handle.
    check
        Simulate what archer bench serve --json measured instead, and compare.
    within
        How far a simulated percentile may be from the measured one, as a fraction of it.
    figure
        Plot requests in time against the number of GPUs, as this SVG file.
    json
        Print one JSON object instead of a table.
    """
    if check is not None:
        return _check(check, within, json=json)
    if figure is not None:
        _can_draw(figure)
    settings = _settings(demand, work, on)
    if ways is not None:
        return _compare(demand, settings, ways, json=json)
    from archer.planning import shown
    from archer.planning.plan import Target, best
    from archer.planning.plan import plan as planned

    target = Target(in_time, p99)
    found = planned(demand.drawn, settings, target)
    if figure is not None:
        _draw(best(found), figure)
    if json:
        told = {"plan": [each.as_dict() for each in best(found)]}
        write_json(_asked(demand, work, on, target) | told | {"all": [e.as_dict() for e in found]})
        return 0
    _write(shown.plans(each.as_dict() for each in best(found)), words=1)
    if len(found) > len(best(found)):
        write_line("")
        _write(shown.plans(each.as_dict() for each in found), words=1)
    return 0


def _settings(demand: DemandOptions, work: WorkOptions, on: CardOptions) -> list[Setting]:
    """Every card, radius and budget; refuses whatever can be refused before anything is simulated."""
    from archer.bench.repeating import check_counts, whole_numbers
    from archer.bench.subject import Room
    from archer.costs.shapes import published
    from archer.planning.demand import MOST_REQUESTS
    from archer.planning.plan import Setting

    check_counts(requests=demand.requests)
    if demand.requests > MOST_REQUESTS:
        raise BadRequest(
            f"--requests takes at most {MOST_REQUESTS}, not {demand.requests}: "
            "more would tell you nothing new."
        )
    coming, _ = demand.drawn(0.0, 0.0)
    if on.measured is None:
        largest = max(coming.wanted, key=lambda each: each.prompt + each.length)
        Room(largest.prompt, largest.length).check(published(work.shape).shape)
    budgets = whole_numbers(on.budget, "--budget")
    extra = int(published(work.shape).shape.shift)
    paces = work.paces()
    return [
        Setting(server, pace, budget, radius, extra)
        for server in on.servers(work)
        for radius, pace in paces.items()
        for budget in budgets
    ]


def _asked(
    demand: DemandOptions, work: WorkOptions, on: CardOptions, target: Any
) -> dict[str, Any]:
    return {
        "rate": demand.rate,
        "prompt": demand.prompt,
        "length": demand.length,
        "file": None if demand.file is None else str(demand.file),
        "requests": demand.requests,
        "seed": demand.seed,
        "shape": work.shape,
        "method": work.method,
        "in_time": target.in_time,
        "p99": target.p99,
        "efficiency": on.efficiency,
        "pass_ms": on.pass_ms,
        "row_ms": on.row_ms,
        "measured": None if on.measured is None else str(on.measured),
    }


def _compare(demand: DemandOptions, settings: Sequence[Setting], load: float, *, json: bool) -> int:
    from archer.planning import shown
    from archer.planning.plan import side_by_side

    if not 0 < load < math.inf:
        raise BadRequest(f"--ways takes a load above 0, such as 0.8, not {load}.")
    found = side_by_side(demand.at, settings, load)
    if json:
        write_json({"load": load, "ways": [each.as_dict() for each in found]})
        return 0
    _write(shown.ways(each.as_dict() for each in found), words=2)
    return 0


def _check(path: Path, within: float, *, json: bool) -> int:
    from archer.planning import shown
    from archer.planning.check import compared
    from archer.planning.recording import read_recording

    if not 0 < within < 1:
        raise BadRequest(f"--within takes a fraction, above 0 and below 1, not {within}.")
    recording = read_recording(path)
    found = list(compared(recording))
    missed = [each for each in found if abs(each.error) > within]
    if json:
        write_json(
            {
                "within": within,
                "fit_error": recording.pass_times().error,
                "missed": len(missed),
                "rows": [each.as_dict() for each in found],
            }
        )
    else:
        _write(shown.checks(found), words=2)
    if missed:
        told = ", ".join(f"{each.what} under {each.load}" for each in missed)
        complain(f"The simulation is off by more than {100 * within:g} %: {told}.")
    return MISSED if missed else 0


def _can_draw(path: Path) -> None:
    """Refuses before minutes of simulation, not after."""
    from archer.pages.figures import REMEDY, can_draw

    if not can_draw():
        raise BadRequest(REMEDY)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise BadRequest(f"{path} cannot be written. Name a file in a folder that exists.")


def _draw(found: Sequence[Found], path: Path) -> None:
    from archer.pages.figures import Labels, Series, lines

    series = [
        Series(
            each.card,
            [point.cards for point in each.tried],
            [100 * point.outcome.in_time for point in each.tried],
        )
        for each in found
    ]
    labels = Labels("Requests in time by number of GPUs", "GPUs", "% within 3 x the time alone")
    path.write_text(lines(series, labels).svg, encoding="utf-8")


def _cards(spelled: str) -> list[Any]:
    from archer.costs.roofline import DEVICES

    names = [part.strip() for part in spelled.split(",")]
    if names == ["all"]:
        return list(DEVICES)
    found = []
    for name in names:
        like = [card for card in DEVICES if name and card.name.lower().startswith(name.lower())]
        if len(like) != 1:
            raise BadRequest(
                f"There is no GPU {name!r} here. GPUs: {', '.join(card.name for card in DEVICES)}."
            )
        found += like
    return found


def _numbers(spelled: str, option: str, example: str) -> list[float]:
    try:
        found = [float(part) for part in spelled.split(",")]
    except ValueError:
        found = []
    if not found or not all(number >= 1 for number in found):
        raise BadRequest(
            f"{option} takes numbers, at least 1, or inf, as in {example}, not {spelled!r}."
        )
    return found


def _write(table: Table, words: int) -> None:
    """The first columns are words, the others numbers."""
    head, *rows = table
    write_grid(head, rows, [place >= words for place in range(len(head))])
