"""Traces made without a model: random, but such as a decoder could have written them."""

import random
from collections.abc import Sequence
from typing import Literal

from archer.results.trace import End, Placed, Start, Update

MASK = 99
END = 7
RADIUS = 4
PIECES = {0: "def", 1: " f", 2: "(x):", 3: "\n    ", 4: "return", 5: " x", 6: "\n", END: "<|end|>"}
PROMPT = [0, 1, 2]
Events = list[Start | Update | End]


def start(length: int, *, pieces: dict[int, str] | None = PIECES, prompts: int = 1) -> Start:
    return Start(
        model="tiny",
        method="archer",
        settings={"length": length, "radius": RADIUS},
        seed=3,
        mask=MASK,
        length=length,
        prompts=[PROMPT] * prompts,
        pieces=pieces,
        ends=[END],
    )


def update(
    number: int,
    *,
    row: int = 0,
    call: Literal["full", "cached", "reused"] = "cached",
    distance: int = 0,
    accepted: Sequence[Placed] = (),
    replaced: Sequence[Placed] = (),
    remasked: Sequence[int] = (),
    doubts: Sequence[float | None] | None = None,
) -> Update:
    return Update(
        row=row,
        update=number,
        call=call,
        fed=1,
        distance=distance,
        accepted=list(accepted),
        replaced=list(replaced),
        remasked=list(remasked),
        doubts=[None] * len(remasked) if doubts is None else list(doubts),
        threshold=None if number == 1 else 0.5,
        seconds=0.0,
    )


def simulate(
    seed: int,
    *,
    length: int = 24,
    row: int = 0,
    vocabulary: Sequence[int] = tuple(PIECES),
    parts_at: int = 0,
    first: int = 0,
) -> list[Update]:
    """Updates of one row that accept, take back and replace.

    Up to `parts_at` they are drawn from the seed `first`, so that runs share a beginning.
    """
    draw = random.Random(first if parts_at else seed)
    response = [MASK] * length
    anchor = list(response)
    events: list[Update] = []
    while MASK in response:
        number = len(events) + 1
        if number == parts_at:
            draw = random.Random(seed)
        distance = sum(a != b for a, b in zip(response, anchor, strict=True))
        full = number == 1 or distance >= RADIUS
        anchor = list(response) if full else anchor
        event = _change(draw, response, number, row, full, distance, vocabulary)
        for change in (*event.accepted, *event.replaced):
            response[change.at] = change.token
        for at in event.remasked:
            response[at] = MASK
        events.append(event)
    return events


def _change(
    draw: random.Random,
    response: list[int],
    number: int,
    row: int,
    full: bool,
    distance: int,
    vocabulary: Sequence[int],
) -> Update:
    """Fill some masks; often take back one token, which may be among them, and replace another."""
    masks = [at for at, token in enumerate(response) if token == MASK]
    placed = [at for at, token in enumerate(response) if token != MASK]
    chosen = sorted(draw.sample(masks, min(len(masks), draw.randint(2, 4))))
    last = len(chosen) == len(masks)
    taken = [draw.choice(placed + chosen)] if draw.random() < 0.6 and not last else []
    edited = [at for at in placed if draw.random() < 0.05 and at not in taken]

    def write(at: int) -> Placed:
        return Placed(at=at, token=draw.choice(vocabulary), confidence=draw.random())

    return update(
        number,
        row=row,
        call="full" if full else draw.choice(("cached", "cached", "reused")),
        distance=distance,
        accepted=[write(at) for at in chosen],
        replaced=[write(at) for at in edited],
        remasked=taken,
        doubts=[draw.random() for _ in taken],
    )


def ended(row: int = 0, reason: str = "length", error: str | None = None) -> End:
    return End(row=row, completion={"finish_reason": reason, "error": error})
