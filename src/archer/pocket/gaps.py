"""Gaps in the reference bodies of pocket's dev set: one line, several lines, or a span of characters.

Each has given text of its function before and behind it. Lines are cut where tokens end, at their line
breaks; spans are cut anywhere.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from archer.pocket import frozen
from archer.pocket.problems import Problem

Kind = Literal["line", "lines", "span"]
KINDS: tuple[Kind, ...] = ("line", "lines", "span")
FILE = "gaps-dev.jsonl"
DIGEST = "5189315490019492c95b1ba6cf18cb393b6f40bc90d9405619bc159a772bf7a7"
"""sha256 of the file."""


@dataclass(frozen=True)
class Cut:
    """The characters of a reference body from `start` up to `end`."""

    name: str
    problem: str
    kind: Kind
    start: int
    end: int

    def parts(self, problem: Problem) -> tuple[str, str, str]:
        """The body before the gap, in it, and behind it."""
        body = problem.body
        return body[: self.start], body[self.start : self.end], body[self.end :]

    def record(self) -> dict[str, Any]:
        """What one line of the file holds."""
        return asdict(self)


def load(kind: Kind) -> list[Cut]:
    """The gaps of one kind, from the file."""
    return [cut for cut in parse(frozen.read(FILE)) if cut.kind == kind]


def parse(data: bytes) -> list[Cut]:
    """The gaps in the file's bytes; refused when they are not the published ones."""
    frozen.check(data, DIGEST, "The gaps of the dev set of pocket are")
    return [Cut(**json.loads(line)) for line in data.decode("ascii").splitlines()]
