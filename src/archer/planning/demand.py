"""What will be asked: how fast requests come and how large they are, drawn or read from JSON lines."""

import itertools
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from archer.costs.workload import MOST_UPDATES, Workload, even
from archer.errors import BadRequest
from archer.files import utf8_text
from archer.planning.request import MOST_REQUESTS
from archer.planning.update_rates import UpdateRate

RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
CHOICE = re.compile(r"[0-9]{1,9}(,[0-9]{1,9})*")
MOST_TOKENS = 1 << 17
"""Of a prompt or a response; none is longer, and a slip of the pen would fill the memory."""

Draw = Callable[[random.Random], int]


@dataclass(frozen=True)
class RequestSize:
    """One request: its size, and its work and its time where they are known."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    prompt: Annotated[int, Field(ge=1, le=MOST_TOKENS)]
    length: Annotated[int, Field(ge=1, le=MOST_TOKENS)]
    updates: Annotated[int, Field(ge=1, le=MOST_UPDATES)] | None = None
    full: Annotated[int, Field(ge=1)] | None = None
    at: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Seconds."""

    def __post_init__(self) -> None:
        if (self.updates is None) != (self.full is None):
            raise ValueError("full must be given with updates")
        if self.full is not None and self.updates is not None and self.full > self.updates:
            raise ValueError("full must be a whole number from 1 to updates")

    def trajectory(self, rate: UpdateRate, extra: int = 0) -> Workload:
        if self.updates is None or self.full is None:
            return rate.trajectory(self.prompt, self.length, extra)
        return even(self.prompt, self.length, self.updates, self.full, extra)


@dataclass(frozen=True)
class Demand:
    """Requests in order of time, and when they come."""

    sizes: tuple[RequestSize, ...]
    times: tuple[float, ...]
    rate: float | None = None
    """Requests per second of the stream that they are a part of; None where these are all."""


def size_range(spelled: str, option: str) -> Draw:
    """A drawer of sizes; refuses what is none."""
    text = spelled.replace(" ", "")
    if match := RANGE.fullmatch(text):
        low, high = int(match[1]), int(match[2])
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
    """N requests at a rate, with gaps drawn as if nobody knew of each other."""
    prompts, lengths = size_range(prompt, "prompt"), size_range(length, "length")
    draw = random.Random(seed)
    sizes = tuple(RequestSize(prompts(draw), lengths(draw)) for _ in range(count))
    return Demand(sizes, arrivals(rate, count, seed), rate)


def arrivals(rate: float, count: int, seed: int = 0) -> tuple[float, ...]:
    """Moments of N arrivals; the mean gap is that of the rate, whatever was drawn."""
    if not 0 < rate < float("inf"):
        raise BadRequest(f"rate takes requests per second, a number above 0, not {rate}.")
    draw = random.Random(seed + 1)
    drawn = list(itertools.accumulate(draw.expovariate(1.0) for _ in range(count)))
    scale = count / drawn[-1] / rate if drawn else 1.0
    return tuple(at * scale for at in drawn)


def read_demand(path: Path, rate: float | None, seed: int = 0) -> Demand:
    """From a file; with `rate` its times are not used."""
    lines = utf8_text(path.read_bytes, str(path)).splitlines()
    if len(lines) > MOST_REQUESTS:
        raise BadRequest(
            f"{path} has {len(lines)} lines, and at most {MOST_REQUESTS} are simulated. Take a part of it."
        )
    reader = TypeAdapter(RequestSize)
    sizes = tuple(
        _read(reader, line, f"{path}:{number}")
        for number, line in enumerate(lines, 1)
        if line.strip()
    )
    if not sizes:
        raise BadRequest(f"{path} holds no request.")
    if rate is not None:
        return Demand(sizes, arrivals(rate, len(sizes), seed), rate)
    timed = [(size.at, size) for size in sizes if size.at is not None]
    if len(timed) < len(sizes):
        raise BadRequest(f"Not every line of {path} says `at`, in seconds. Say so, or give a rate.")
    timed.sort(key=lambda each: each[0])
    return Demand(tuple(size for _, size in timed), tuple(at for at, _ in timed))


def _read(reader: TypeAdapter[RequestSize], line: str, where: str) -> RequestSize:
    try:
        return reader.validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise BadRequest(
            f"{where} is no request ({name}{': ' if name else ''}{first['msg']}). A line is an object "
            "with prompt and length and, where known, at, updates and full."
        ) from error


def repeated(demand: Demand, count: int, before: int, seed: int = 0) -> Demand:
    """A stream of N requests of the same sizes, over and over; the first of them is number `before`."""
    if demand.rate is None:
        raise ValueError("only a stream can be repeated")
    number_of = len(demand.sizes)
    sizes = tuple(demand.sizes[(number - before) % number_of] for number in range(count))
    return Demand(sizes, arrivals(demand.rate, count, seed), demand.rate)
