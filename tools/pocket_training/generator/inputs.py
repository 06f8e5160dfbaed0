"""Arguments to test a function with: ordinary ones, and the edge cases of the extended suite."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from pocket_training.generator.operations import CONSTANTS

Value = Any
"""A number, a string, a list of either, or a dictionary from letters to numbers."""

WORDS = (
    "ant", "apple", "area", "banana", "bee", "bird", "boat", "cat", "civic", "cold", "dad", "data",
    "dots", "ear", "eel", "elm", "idea", "item", "lamp", "level", "lime", "loop", "mat", "mint",
    "noon", "nose", "oat", "open", "pet", "pine", "plot", "radar", "rain", "red", "rose", "salt",
    "sea", "star", "stats", "tent", "tile", "tot",
)  # fmt: skip
LETTERS = "abcdeilmnoprst"


def _numbers(rng: Random) -> list[int]:
    values = [rng.randint(-6, 20) for _ in range(rng.randint(3, 5))]
    if rng.random() < 0.3:
        values[-1] = values[0]
    return values


def _string(rng: Random) -> str:
    word = rng.choice(WORDS)
    return word.title() if rng.random() < 0.15 else word


def _entries(rng: Random) -> dict[str, int]:
    return {key: rng.randint(-3, 15) for key in rng.sample(LETTERS, rng.randint(2, 3))}


_ORDINARY: dict[str, Callable[[Random], Value]] = {
    "numbers": _numbers,
    "size": lambda rng: rng.randint(3, 9),
    "number": lambda rng: rng.randint(-20, 60),
    "string": _string,
    "words": lambda rng: [rng.choice(WORDS) for _ in range(rng.randint(2, 3))],
    "entries": _entries,
    "limit": lambda rng: int(rng.choice(CONSTANTS["limit"])),
    "factor": lambda rng: int(rng.choice(CONSTANTS["factor"])),
    "amount": lambda rng: int(rng.choice(CONSTANTS["amount"])),
}

_EDGES: dict[str, tuple[Value, ...]] = {
    "numbers": ([], [0], [7, 7, 7, 7], [-1, -2, -3], [20, 15, 10, 5, 0, -5, 3, 8, 12, 9, 6, 6]),
    "size": (0, 1, 2, 24, 13),
    "number": (0, 1, -1, 10, 144),
    "string": ("", "a", "ssss", "AbBa", "a long line of text"),
    "words": ([], [""], ["tot", "tot", "noon"], ["Apple", "bee"], ["item", "a", "lamp", "sea", "radar"]),
    "entries": (
        {}, {"a": 0}, {"a": 4, "b": 4, "c": 4}, {"t": -2, "o": 9}, {"p": 1, "e": 8, "r": 12, "s": 15},
    ),
    "limit": (1, 3, 5, 8, 10),
    "factor": (2, 3, 4, 5, 7),
    "amount": (1, 3, 6, 9, 10),
}  # fmt: skip


def ordinary(rng: Random, kind: str) -> Value:
    """A value of a kind, as the visible asserts show it."""
    return _ORDINARY[kind](rng)


def edges(kinds: tuple[str, ...]) -> list[tuple[Value, ...]]:
    """Argument tuples of the edge cases, the i-th of every kind together."""
    return list(zip(*(_EDGES[kind] for kind in kinds), strict=True))
