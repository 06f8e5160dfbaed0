"""Every setting of every decoder and cache, at values that nobody means."""

import itertools
import math
from typing import Any

from archer.methods.catalogue import COMMON, DECODERS, METHODS, POLICIES

VALUES: tuple[Any, ...] = (
    *(0, -1, 2**31, 10**9, 10**400),
    *(1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf),
    *("", "many", "9" * 5000, [], [1] * 1000, {"a": 1}, True),
)
LENGTH = 8


def cases() -> list[tuple[str, str, Any]]:
    """Method, setting, value; a setting of a cache is tried with a decoder that goes with it."""
    owners = {name: (f"{name}+eager", part) for name, part in DECODERS.items()}
    goes_with = {spelled.split("+")[1]: spelled for spelled, _ in METHODS.values()}
    for name, part in POLICIES.items():
        owners[f"cache {name}"] = (goes_with.get(name, f"saber+{name}"), part)
    owners["shared"] = ("saber+archer", COMMON)
    return [
        (method, setting, value)
        for method, part in owners.values()
        for setting, value in itertools.product(sorted(part.settings), VALUES)
    ]
