"""The player: a trajectory's changes as compact data, and the element in which it is watched."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from archer.errors import printable
from archer.pages import embed
from archer.pages.trajectory import Trajectory
from archer.results.trace import Placed

SCRIPTS = (
    "dom.js",
    "run.js",
    "words.js",
    "board.js",
    "response.js",
    "strip.js",
    "history.js",
    "controls.js",
    "player.js",
    "mount.js",
)
"""In this order: a class is defined before a page is searched for players."""
CALLS = ("full", "cached", "reused")
"""A call is stored as its place here."""
UNKNOWN = -1
SURE = 1000
"""Confidences are stored as whole thousandths, `UNKNOWN` where there is none."""


def player_data(trajectory: Trajectory) -> dict[str, Any]:
    """All that the player shows of one trajectory, as plain data for JSON.

    `updates` holds for each update: call, distance, threshold, three flat lists of changes: accepted and
    replaced as position, token, confidence; re-masked as position, confidence; and the nats that a cache
    counted instead of the distance, in thousandths as well; and how many positions the response has then.
    `given` holds position and token of what was given of the response, `lead` what was given on its line in
    front of it.  A token is a place in `ids` and `texts`.
    """
    start, pieces = trajectory.start, trajectory.pieces
    given = [
        (at, token) for at, token in enumerate(trajectory.given) if token != trajectory.start.mask
    ]
    written = (
        change.token for event in trajectory.updates for change in event.accepted + event.replaced
    )
    ids = sorted({*written, *(token for _, token in given)})
    place = {token: number for number, token in enumerate(ids)}
    return {
        "model": printable(_model(start.model)),
        "method": printable(start.method),
        "settings": {printable(name): value for name, value in start.settings.items()},
        "seed": start.seed,
        "length": _longest(trajectory),
        "stop": start.stop or len(trajectory.given),
        "radius": start.settings.get("radius"),
        "nats": start.settings.get("nats"),
        "prompt": _prompt(trajectory.prompt, pieces),
        "lead": _lead(trajectory),
        "numbers": not pieces,
        "ids": ids,
        "texts": [_text(token, pieces) for token in ids],
        "given": [number for at, token in given for number in (at, place[token])],
        "ends": [place[token] for token in ids if token in start.ends],
        "updates": [
            [
                CALLS.index(event.call),
                event.distance,
                _thousandths(event.threshold),
                _changes(event.accepted, place),
                _changes(event.replaced, place),
                _taken(event.remasked, event.doubts),
                _thousandths(event.drift),
                event.stop or len(trajectory.given),
            ]
            for event in trajectory.updates
        ],
        "outcome": _outcome(trajectory),
    }


def player_html(runs: Sequence[dict[str, Any]], title: str, *, opened: bool = False) -> str:
    """One run, or two side by side, as an element that `assets` brings to life."""
    side = " pair" if len(runs) > 1 else ""
    return (
        f'<details class="trajectory{side}"{" open" if opened else ""}>\n'
        f"<summary>{embed.text(title)}</summary>\n"
        f'<script type="application/json">{embed.data({"runs": list(runs)})}</script>\n'
        "<noscript><p>The player needs JavaScript.</p></noscript>\n"
        "</details>\n"
    )


def style() -> str:
    """The style of all players of a page."""
    return embed.asset("player.css")


def script() -> str:
    """The script of all players of a page."""
    parts = "\n".join(embed.asset(name) for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}}})();\n'


def _model(name: str) -> str:
    """A hub id as it is; of a folder the name only, because a page is passed on."""
    path = Path(name)
    return path.name if path.is_absolute() else name


def _longest(trajectory: Trajectory) -> int:
    """Positions that the response has at any time."""
    length = len(trajectory.given)
    stops = [event.stop for event in trajectory.updates]
    return max((each or length for each in (trajectory.start.stop, *stops)), default=length)


def _prompt(tokens: Iterable[int], pieces: dict[int, str]) -> str:
    return ("" if pieces else " ").join(_text(token, pieces) for token in tokens)


def _lead(trajectory: Trajectory) -> str:
    """The line that the first gap stands on, up to the gap, without what is healed and so written anew."""
    parts = (trajectory.completion or {}).get("parts") or [""]
    line = printable(str(parts[0]).rpartition("\n")[2])
    before = _prompt(trajectory.prompt, trajectory.pieces)
    return next(line[:end] for end in range(len(line), -1, -1) if before.endswith(line[:end]))


def _text(token: int, pieces: dict[int, str]) -> str:
    """Where there are pieces, an id without one is told from a number that the model wrote."""
    return printable(pieces.get(token, f"<{token}>")) if pieces else str(token)


def _outcome(trajectory: Trajectory) -> str:
    """How it ended, as a phrase."""
    done = trajectory.completion
    if done is None:
        return "the trace ends here, unfinished"
    if done.get("error"):
        return printable(str(done["error"]))
    reasons = {"stop": "ended by an end token", "length": "all positions filled"}
    return reasons.get(str(done.get("finish_reason")), "finished")


def _changes(changes: Iterable[Placed], place: dict[int, int]) -> list[int]:
    return [
        number
        for change in changes
        for number in (change.at, place[change.token], _thousandths(change.confidence))
    ]


def _taken(positions: Sequence[int], doubts: Sequence[float | None]) -> list[int]:
    return [
        number
        for at, sure in zip(positions, doubts, strict=True)
        for number in (at, _thousandths(sure))
    ]


def _thousandths(confidence: float | None) -> int:
    return UNKNOWN if confidence is None else round(confidence * SURE)
