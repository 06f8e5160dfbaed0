"""What a plan is asked for, as data that checks itself; the command line reads its options here."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from archer.errors import BadRequest
from archer.methods import DEFAULT_METHOD, PAPER_METHOD

MOST_REQUESTS = 20_000
"""Of a file, or that count: more would tell nothing new."""
MOST_UPDATES_PER_TOKEN = 100


@dataclass(frozen=True)
class ExpectedTraffic:
    """What will be asked."""

    rate: float | None = None
    """Requests per second [default: 1, or as the file says]."""
    prompt: str = "512"
    """Tokens of a prompt: a number, a range such as 64-3072, or a choice such as 128,512."""
    length: str = "256"
    """Tokens of a response, in the same way."""
    file: Path | None = None
    """Requests from a file instead, one JSON object per line with prompt and length; see docs/planning.md."""
    requests: int = 400
    """Requests that are counted; others come before and after them."""
    seed: int = 0
    """Seed for drawing arrivals and sizes."""

    def __post_init__(self) -> None:
        if not 1 <= self.requests <= MOST_REQUESTS:
            raise BadRequest(
                f"requests takes a whole number from 1 to {MOST_REQUESTS}, not {self.requests}."
            )


@dataclass(frozen=True)
class ModelWork:
    """How much work a request is."""

    shape: str = "llada-8b"
    """Which model's passes: a shape that archer bench knows."""
    method: str | None = None
    """Method, which decides the number of updates: archer, archer-doubt, archer-cut, saber,
    llada-confidence, no-rollback, no-rollback+archer [default: the default method, archer where a radius is
    named]."""
    radius: Sequence[float] | None = None
    """Radii to compare, such as 4,8,16,inf [default: the method's own]."""
    updates: float | None = None
    """Updates per token of the response, instead of what is known about the method."""
    refreshed: float | None = None
    """Fraction of the updates that make a full pass, from 0 to 1; given with the updates."""

    @property
    def planned_method(self) -> str:
        """The method, or the one that decodes where none is named."""
        return self.method or (DEFAULT_METHOD if self.radius is None else PAPER_METHOD)

    def __post_init__(self) -> None:
        if (self.updates is None) != (self.refreshed is None):
            raise BadRequest("Give updates and refreshed together, or neither.")
        if self.updates is None or self.refreshed is None:
            return
        if self.radius is not None:
            raise BadRequest("refreshed says what radius would; leave one of them out.")
        if not (0 < self.updates <= MOST_UPDATES_PER_TOKEN and 0 <= self.refreshed <= 1):
            raise BadRequest(
                f"updates takes updates per token, above 0 and at most {MOST_UPDATES_PER_TOKEN}, and "
                f"refreshed a fraction of them, from 0 to 1, not {self.updates} and {self.refreshed}."
            )


@dataclass(frozen=True)
class Hardware:
    """What it runs on."""

    gpus: Sequence[str] = ("A100", "H100", "B200")
    """GPUs, by the beginnings of their names; all takes every GPU that is known."""
    measured: Path | None = None
    """Pass times of this machine instead, from archer bench passes --json or archer bench serve --json."""
    budget: Sequence[int] = (1024,)
    """Columns per pass; several are compared, such as 512,1024,2048."""
    efficiency: float = 0.5
    """Fraction of a GPU's arithmetic and bandwidth that passes reach."""
    pass_ms: float = 1.0
    """Milliseconds around every pass."""
    row_ms: float = 0.3
    """Milliseconds for the decisions about a row."""

    def __post_init__(self) -> None:
        if not 0 < self.efficiency <= 1:
            raise BadRequest(
                f"efficiency takes a fraction, above 0 and at most 1, not {self.efficiency}."
            )
        if not (0 <= self.pass_ms < math.inf and 0 <= self.row_ms < math.inf):
            raise BadRequest(
                f"pass_ms and row_ms take milliseconds, at least 0, not {self.pass_ms} and {self.row_ms}."
            )


@dataclass(frozen=True)
class Target:
    """What is good enough."""

    in_time: float = 0.95
    """Fraction of the requests that must end within three times the time they take alone."""
    p99: float | None = None
    """Seconds within which 99 of 100 must end as well."""

    def __post_init__(self) -> None:
        if not 0 < self.in_time <= 1:
            raise BadRequest(
                f"in_time takes a fraction of the requests, above 0 and at most 1, not {self.in_time}."
            )
        if self.p99 is not None and not self.p99 > 0:
            raise BadRequest(f"p99 takes seconds above 0, not {self.p99}.")
