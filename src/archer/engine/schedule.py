"""Whose turn it is: pure functions of what they are shown, so that a simulation can call them as well.

A scheduler chooses when a request makes its next update, never what that update is.  The order is by highest
response ratio: time waited over columns still to do.  Short requests overtake long ones, and everyone's ratio
grows while they wait, so nobody starves; there is no parameter.

Owners come before that: places in the queue, memory and passes are shared equally among those who want some
now.  Nobody is kept from an equal share by what others have; the rest is lent to whoever asks.  An owner that
is there alone may have everything.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

PATIENCE = 32
"""Turns after which a request that was passed over goes first."""
HALF_LIFE = 10.0
"""Seconds after which computing that was done for an owner counts half."""
EVEN = 1.25
"""Owners that had this much more than an equal share still count as even."""
NOTHING = 0.01
"""Owners that had no more than this part of an equal share count as not having been here lately."""
KNEES = 4
"""A budget as a multiple of the columns that keep a device busy: room for a full pass beside cached ones."""

Tag = TypeVar("Tag", bound=Hashable)
Rank = tuple[int, bool, bool, float, float]


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
    owner: Hashable = field(default=None, kw_only=True)
    """On whose behalf; None is an owner, too."""

    @property
    def late(self) -> bool:
        return self.passed_over >= PATIENCE

    @property
    def rank(self) -> Rank:
        return self.rank_where(entitled=False)

    def rank_where(self, *, entitled: bool) -> Rank:
        """Sorts ascending: by priority, then owners below their share, then who waited too long, then ratio.

        Who waited too long counts as of the first priority.
        """
        return (
            0 if self.late else self.priority,
            not entitled,
            not self.late,
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


def may_wait(waiting: Mapping[Hashable, int], owner: Hashable, more: int, limit: int) -> bool:
    """Whether an owner may have `more` requests wait, given how many of each owner do.

    Yes while the queue has room, and, however full it is, up to an equal share of it, or one.  So the Nth
    owner makes the queue longer by at most an Nth of its limit, or by one.
    """
    owners = {each for each, count in waiting.items() if count} | {owner}
    own = waiting.get(owner, 0)
    return sum(waiting.values()) + more <= limit or own + more <= max(1, limit // len(owners))


class Usage:
    """Seconds of computing that each owner has had lately; what is long past counts less and less."""

    def __init__(self) -> None:
        self._seconds: dict[Hashable, float] = {}
        self._at = 0.0

    def now(self, now: float) -> Mapping[Hashable, float]:
        """As of this moment; owners that had nothing lately are forgotten."""
        kept = 0.5 ** (max(0.0, now - self._at) / HALF_LIFE)
        self._at = max(now, self._at)
        aged = {owner: kept * seconds for owner, seconds in self._seconds.items()}
        self._seconds = {owner: seconds for owner, seconds in aged.items() if seconds > 1e-6}
        return self._seconds

    def spent(self, owner: Hashable, seconds: float) -> None:
        """Something took so long on behalf of one owner."""
        self._seconds[owner] = self._seconds.get(owner, 0.0) + seconds

    def add(self, columns: Mapping[Hashable, int], seconds: float) -> None:
        """A pass of these columns for each owner took so long."""
        total = sum(columns.values())
        for owner, own in columns.items():
            if own:
                self.spent(owner, seconds * own / total)


def columns_by_owner(offers: Sequence[Offer[Tag]], chosen: Sequence[Tag]) -> Mapping[Hashable, int]:
    """Columns of the next pass on behalf of each owner."""
    columns: Counter[Hashable] = Counter()
    together = set(chosen)
    for offer in offers:
        if offer.tag in together:
            columns[offer.owner] += offer.columns
    return columns


def choose(
    offers: Sequence[Offer[Tag]], budget: int, used: Mapping[Hashable, float] | None = None
) -> list[Tag]:
    """The requests of the next pass: the first in order always, then all that fit the budget.

    `used` is what each owner has had lately.  Owners that had less than an equal share go first, and whoever
    had much more and asks for much waits meanwhile.  Where several owners ask, none has more columns in a
    pass than the one that asks for least, or than one request: a pass that one owner fills would hold up
    everybody in it, also where that owner has come anew and is owed all that others have had.  Where others
    have been here lately a pass is no longer than keeps a device busy: they may ask while it is made.
    """
    if len(offers) < 2:
        return [offer.tag for offer in offers]
    used = used or {}
    had = {offer.owner: used.get(offer.owner, 0.0) for offer in offers}
    share = sum(had.values()) / len(had)
    first, *others = sorted(
        offers, key=lambda offer: offer.rank_where(entitled=had[offer.owner] < share)
    )
    if first.isolated:
        return [first.tag]
    wanted = columns_by_owner(offers, [offer.tag for offer in offers])
    each = budget
    if len(wanted) > 1:
        each = min(wanted.values())
    elif _others_lately(used, wanted):
        each = budget // KNEES
    each = max(each, first.columns)
    below = had[first.owner] < share
    waits = {owner for owner in had if below and wanted[owner] > each and had[owner] > EVEN * share}
    chosen, left = [first.tag], budget - first.columns
    taken = Counter({first.owner: first.columns})
    for offer in others:
        more = taken[offer.owner] + offer.columns
        if offer.isolated or offer.columns > left or more > each or offer.owner in waits:
            continue
        chosen.append(offer.tag)
        taken[offer.owner] = more
        left -= offer.columns
    return chosen


def _others_lately(used: Mapping[Hashable, float], present: Mapping[Hashable, int]) -> bool:
    """Whether owners that are not present had more than next to nothing."""
    least = NOTHING * sum(used.values()) / max(len(used), 1)
    return any(seconds > least for owner, seconds in used.items() if owner not in present)


@dataclass(frozen=True)
class Room(Generic[Tag]):
    """What there is to give: bytes, and rows for each owner that has a limit."""

    bytes: int
    rows: dict[Hashable, int]
    """Rows that run on behalf of each owner already."""
    per_owner: int | None = None
    """Most rows of one owner."""
    held: Mapping[Hashable, int] = field(default_factory=dict)
    """Bytes of those rows."""

    def share(self, applications: Sequence[Application[Tag]]) -> int | None:
        """Bytes that every owner may have whatever others hold; None where there is one owner only."""
        owners = {each for each, count in self.held.items() if count}
        owners |= {each.owner for each in applications}
        return (self.bytes + sum(self.held.values())) // len(owners) if len(owners) > 1 else None


def _entitled(application: Application[Tag], held: int, share: int | None) -> bool:
    """Within its owner's share; or larger than that, but waiting for long, and its owner has nothing."""
    if share is None:
        return False
    return held + application.bytes <= share or (application.late and not held)


def admit(applications: Sequence[Application[Tag]], room: Room[Tag]) -> list[Tag]:
    """The requests that get memory now; smaller ones may for a while overtake one that does not fit.

    Owners below their share go first; where one of them finds no room, nothing is lent until it does.
    """
    admitted, free, rows = [], room.bytes, dict(room.rows)
    held, share = Counter(room.held), room.share(applications)
    queues: defaultdict[Hashable, list[Application[Tag]]] = defaultdict(list)
    for each in sorted(applications, key=lambda each: each.rank, reverse=True):
        queues[each.owner].append(each)
    names = list(queues)

    def head(place: int) -> tuple[Rank, int]:
        """The next request of an owner."""
        owner = names[place]
        application = queues[owner][-1]
        return application.rank_where(entitled=_entitled(application, held[owner], share)), place

    heads = [head(place) for place in range(len(names))]
    heapq.heapify(heads)
    lends = True
    while heads:
        _, place = heapq.heappop(heads)
        owner = names[place]
        application = queues[owner].pop()
        entitled = _entitled(application, held[owner], share)
        taken = rows.get(owner, 0) + application.rows
        over = room.per_owner is not None and owner is not None and taken > room.per_owner
        if not over and application.bytes > free:
            if application.late:
                break
            lends = lends and not entitled
        elif not over and (entitled or lends):
            admitted.append(application.tag)
            free -= application.bytes
            rows[owner] = taken
            held[owner] += application.bytes
        if queues[owner]:
            heapq.heappush(heads, head(place))
    return admitted


def shortage(applications: Sequence[Application[Tag]], room: Room[Tag]) -> int:
    """Bytes to take back from those who hold more than their share, for the first who lacks some of it."""
    share = room.share(applications)
    for application in sorted(applications, key=lambda each: each.rank):
        own = room.held.get(application.owner, 0)
        taken = room.rows.get(application.owner, 0) + application.rows
        over = (
            room.per_owner is not None and application.owner is not None and taken > room.per_owner
        )
        if share is not None and not over and own + application.bytes <= share:
            return max(0, application.bytes - room.bytes)
    return 0
