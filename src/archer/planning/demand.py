"""What will be asked: how fast requests come and how large they are, drawn or read from a file.

A size is a number, a range (`64-3072`, evenly over whole numbers) or a choice (`64,128,256`).  A file has one
JSON object per line: `prompt` and `length`, and if you know them `at` (seconds), `updates` and `full`.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archer.costs.workload import MOST_UPDATES, Trajectory, even
from archer.errors import BadRequest
from archer.planning.pace import Pace

RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
CHOICE = re.compile(r"[0-9]{1,9}(,[0-9]{1,9})*")
MOST_TOKENS = 1 << 17
"""Of a prompt or a response; none is longer, and a slip of the pen would fill the memory."""
MOST_REQUESTS = 20_000
"""Of a file, or that count: more tell nothing new."""
FIELDS = ("prompt", "length", "at", "updates", "full")

Draw = Callable[[random.Random], int]


@dataclass(frozen=True)
class Wanted:
    """One request: its size, and its work where that is known."""

    prompt: int
    length: int
    updates: int | None = None
    full: int | None = None

    def trajectory(self, pace: Pace, extra: int = 0) -> Trajectory:
        if self.updates is None or self.full is None:
            return pace.trajectory(self.prompt, self.length, extra)
        return even(self.prompt, self.length, self.updates, self.full, extra)


@dataclass(frozen=True)
class Demand:
    """Requests in order of time, and when they come."""

    wanted: tuple[Wanted, ...]
    times: tuple[float, ...]
    rate: float | None = None
    """Requests per second of the stream that they are a part of; None where these are all."""


def sizes(spelled: str, option: str) -> Draw:
    """A drawer of sizes; refuses what is none."""
    text = spelled.replace(" ", "")
    if found := RANGE.fullmatch(text):
        low, high = int(found[1]), int(found[2])
        if 0 < low <= high <= MOST_TOKENS:
            return lambda draw: draw.randint(low, high)
    elif CHOICE.fullmatch(text):
        chosen = tuple(map(int, text.split(",")))
        if 0 < min(chosen) <= max(chosen) <= MOST_TOKENS:
            return lambda draw: draw.choice(chosen)
    raise BadRequest(
        f"{option} takes a number of tokens, a range such as 64-3072, or some to choose from such as "
        f"64,128,256, none above {MOST_TOKENS}, not {spelled!r}."
    )


def drawn(rate: float, count: int, prompt: str, length: str, seed: int = 0) -> Demand:
    """So many requests per second, with gaps drawn as if nobody knew of each other."""
    prompts, lengths = sizes(prompt, "prompt"), sizes(length, "length")
    draw = random.Random(seed)
    wanted = tuple(Wanted(prompts(draw), lengths(draw)) for _ in range(count))
    return Demand(wanted, arrivals(rate, count, seed), rate)


def arrivals(rate: float, count: int, seed: int = 0) -> tuple[float, ...]:
    """Moments of so many arrivals; the mean gap is that of the rate, whatever was drawn."""
    if not 0 < rate < float("inf"):
        raise BadRequest(f"rate takes requests per second, a number above 0, not {rate}.")
    draw = random.Random(seed + 1)
    drawn = list(itertools.accumulate(draw.expovariate(1.0) for _ in range(count)))
    scale = count / drawn[-1] / rate if drawn else 1.0
    return tuple(at * scale for at in drawn)


def read_demand(path: Path, rate: float | None, seed: int = 0) -> Demand:
    """From a file; with `rate` its times are not used."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise BadRequest(f"{path} is not a text in UTF-8.") from error
    if len(lines) > MOST_REQUESTS:
        raise BadRequest(
            f"{path} has {len(lines)} lines, and at most {MOST_REQUESTS} are simulated. Take a part of it."
        )
    rows = [_row(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise BadRequest(f"{path} holds no request.")
    wanted = tuple(each for each, _ in rows)
    if rate is not None:
        return Demand(wanted, arrivals(rate, len(rows), seed), rate)
    times = [at for _, at in rows if at is not None]
    if len(times) < len(rows):
        raise BadRequest(f"Not every line of {path} says `at`, in seconds. Say so, or give a rate.")
    order = sorted(range(len(rows)), key=lambda number: times[number])
    return Demand(
        tuple(wanted[number] for number in order), tuple(times[number] for number in order)
    )


def repeated(demand: Demand, count: int, before: int, seed: int = 0) -> Demand:
    """A stream of so many requests of the same sizes, over and over; the first of them is number `before`."""
    if demand.rate is None:
        raise ValueError("only a stream can be repeated")
    sizes = len(demand.wanted)
    wanted = tuple(demand.wanted[(number - before) % sizes] for number in range(count))
    return Demand(wanted, arrivals(demand.rate, count, seed), demand.rate)


def _row(line: str, where: str) -> tuple[Wanted, float | None]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise BadRequest(f"{where} is not JSON: {error}.") from error
    if not isinstance(found, dict) or set(found) - set(FIELDS):
        raise BadRequest(f"{where} must be an object with some of {', '.join(FIELDS)}.")
    for name in ("prompt", "length"):
        fits = _is_count(found.get(name)) and found[name] <= MOST_TOKENS
        told = f"a whole number above 0 and at most {MOST_TOKENS}"
        _check(fits, where, name, told, found.get(name))
    updates, full = found.get("updates"), found.get("full")
    _check((updates is None) == (full is None), where, "full", "given with updates", full)
    if updates is not None:
        fits = _is_count(updates) and updates <= MOST_UPDATES
        _check(fits, where, "updates", f"a whole number from 1 to {MOST_UPDATES}", updates)
        fits = _is_count(full) and full <= updates
        _check(fits, where, "full", "a whole number from 1 to updates", full)
    at = found.get("at")
    fits = at is None or (isinstance(at, int | float) and 0 <= at < float("inf"))
    _check(fits, where, "at", "a number of seconds, at least 0", at)
    return Wanted(found["prompt"], found["length"], updates, full), at


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _check(holds: bool, where: str, name: str, wanted: str, found: Any) -> None:
    if not holds:
        raise BadRequest(f"{where}: {name} must be {wanted}, not {str(found)[:40]!r}.")


def small(wanted: Sequence[Wanted]) -> list[bool]:
    """Whether a request belongs to the smallest tenth, by the columns of prompt and response."""
    whole = sorted(each.prompt + each.length for each in wanted)
    limit = whole[len(whole) // 10]
    return [each.prompt + each.length <= limit for each in wanted]
