"""Every setting of every decoder and cache, at values that nobody means."""

import itertools
import math
from typing import Any

from archer.methods.catalogue import ALIASES, COMMON, DECODERS, IMPLIED, METHODS, POLICIES

VALUES: tuple[Any, ...] = (
    *(0, -1, 2**31, 10**9, 10**400),
    *(1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf),
    *("", "many", "9" * 5000, [], [1] * 1000, {"a": 1}, True),
)
LENGTH = 8


def owners() -> list[tuple[str, frozenset[str]]]:
    """Methods with settings to try; those of a cache are tried with a decoder that goes with it.

    What all methods share is tried with each kind of canvas, since most of it means something with one only.
    """
    goes_with = {spelled.split("+")[1]: spelled for spelled, _ in METHODS.values()}
    return [
        *((f"{name}+eager", part.settings) for name, part in DECODERS.items()),
        *((goes_with.get(name, f"saber+{name}"), part.settings) for name, part in POLICIES.items()),
        *((method, COMMON.settings) for method in ("saber+archer", *IMPLIED)),
        ("saber+archer", frozenset(ALIASES)),
    ]


def cases() -> list[tuple[str, str, Any]]:
    """Method, setting, value."""
    return [
        (method, setting, value)
        for method, settings in owners()
        for setting, value in itertools.product(sorted(settings), VALUES)
    ]


def sendable(value: Any) -> bool:
    """Integers of thousands of digits cannot be written as JSON here."""
    return not (isinstance(value, int) and value > 10**308)
