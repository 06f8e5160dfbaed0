"""Whose turn it is: pure functions of what they are shown, so that a simulation can call them as well.

A scheduler chooses when a request makes its next update, never what that update is.  The order is by highest
response ratio: time waited over columns still to do.  Short requests overtake long ones, and everyone's ratio
grows while they wait, so nobody starves; there is no parameter.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

PATIENCE = 32
"""Turns after which a request that was passed over goes first."""

Tag = TypeVar("Tag", bound=Hashable)


@dataclass(frozen=True)
class Claim(Generic[Tag]):
    """What a request brings forward to be served before others."""

    tag: Tag
    waited: float
    """Seconds since it was submitted."""
    left: float
    """Columns it still has to compute, as far as one can tell."""
    priority: int = 0
    """Lower goes first, whatever the ratio."""
    passed_over: int = 0
    """Turns in a row in which others were served and it was not."""

    @property
    def rank(self) -> tuple[bool, int, float, float]:
        """Sorts ascending; requests that waited too long come first, then by priority and ratio."""
        late = self.passed_over >= PATIENCE
        return (
            not late,
            0 if late else self.priority,
            -self.waited / max(self.left, 1.0),
            self.left,
        )


@dataclass(frozen=True)
class Offer(Claim[Tag]):
    """A running request that wants a pass."""

    columns: int = 1
    """What its next pass computes."""
    isolated: bool = False
    """It takes no company in a pass."""


@dataclass(frozen=True)
class Application(Claim[Tag]):
    """A waiting request that wants memory."""

    bytes: int = 0
    rows: int = 1
    owner: Hashable = None
    """On whose behalf; None belongs to nobody."""


def choose(offers: Sequence[Offer[Tag]], budget: int) -> list[Tag]:
    """The requests of the next pass: the first in order always, then all that fit the budget."""
    if not offers:
        return []
    first, *others = sorted(offers, key=lambda offer: offer.rank)
    if first.isolated:
        return [first.tag]
    chosen, left = [first.tag], budget - first.columns
    for offer in others:
        if offer.columns <= left and not offer.isolated:
            chosen.append(offer.tag)
            left -= offer.columns
    return chosen


@dataclass(frozen=True)
class Room(Generic[Tag]):
    """What there is to give: bytes, and rows for each owner that has a limit."""

    bytes: int
    rows: dict[Hashable, int]
    """Rows that run on behalf of each owner already."""
    per_owner: int | None = None
    """Most rows of one owner."""


def admit(applications: Sequence[Application[Tag]], room: Room[Tag]) -> list[Tag]:
    """The requests that get memory now; smaller ones may for a while overtake one that does not fit."""
    admitted, free, rows = [], room.bytes, dict(room.rows)
    for application in sorted(applications, key=lambda each: each.rank):
        taken = rows.get(application.owner, 0) + application.rows
        over = (
            room.per_owner is not None and application.owner is not None and taken > room.per_owner
        )
        if over:
            continue
        if application.bytes > free:
            if application.passed_over >= PATIENCE:
                break
            continue
        admitted.append(application.tag)
        free -= application.bytes
        rows[application.owner] = taken
    return admitted
