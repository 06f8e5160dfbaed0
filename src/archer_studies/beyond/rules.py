"""The arms of the studies beyond the paper: refresh rules, signs of doubt, and the dials of both together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class RuleArm:
    """One arm; the `key` ones are timed and watched.  Those that share a `line` differ in doubt alone."""

    name: str
    label: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    key: bool = False
    line: str = ""


SABER = RuleArm("saber", "Saber", "saber", key=True)
LATE = RuleArm("late2", "late, 1/2", "saber+late", {"share": 0.5}, key=True)
SURPRISE = RuleArm("surprise3", "surprise, 0.3", "saber+surprise", {"nats": 0.3}, key=True)
RULES = (
    SABER,
    RuleArm("k4", "Archer K=4", "archer", {"radius": 4}),
    RuleArm("k8", "Archer K=8", "archer", {"radius": 8}, key=True),
    RuleArm("late4", "late, 1/4", "saber+late", {"share": 0.25}),
    LATE,
    RuleArm("surprise1", "surprise, 0.1", "saber+surprise", {"nats": 0.1}),
    SURPRISE,
    *(
        RuleArm(
            f"doubt-{by}",
            f"late, 1/2; doubt by {by} below {doubt:g}",
            LATE.method,
            {**LATE.settings, "doubt": doubt, **({} if by == "confidence" else {"doubt_by": by})},
        )
        for by, doubt in (("confidence", 0.99), ("kept", 1.0), ("lead", 0.99))
    ),
)
"""When to refresh, and by which sign to doubt."""

DOUBTS: Mapping[str, Mapping[str, Any]] = {
    "none": {},
    "kept": {"doubt": 1.0, "doubt_by": "kept"},
    "0.99": {"doubt": 0.99},
    "0.9": {"doubt": 0.9},
}
FEWEST: Mapping[int, Mapping[str, Any]] = {2: {}, 4: {"n": 4}}
"""Tokens that every update places at least; two are Saber's default."""
DIALS = tuple(
    RuleArm(
        f"{n}-{rule.name}-{doubt}",
        f"n = {n}; {rule.label}; doubt: {doubt}",
        rule.method,
        {**rule.settings, **FEWEST[n], **DOUBTS[doubt]},
        line=f"n = {n}, {rule.label}",
    )
    for n in FEWEST
    for rule in (LATE, SURPRISE)
    for doubt in DOUBTS
)
"""Tokens per update, refresh rule and doubt together: how little an answer can cost, and what that loses."""
