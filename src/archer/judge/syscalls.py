"""System calls by name, with their numbers on x86_64 and aarch64, read from a table beside this file."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Final

Numbers = dict[str, tuple[int | None, int | None]]

ARCHITECTURES: Final = ("x86_64", "aarch64")


class CallGroup(StrEnum):
    """A group of calls; whatever is in none of them is refused."""

    ALLOWED = "allowed"
    """What a program may ask of the kernel without further questions."""
    CONDITIONAL = "conditional"
    """Depends on an argument, see `filters.py`."""
    SETUP = "setup"
    """What the zygote needs to build a sandbox and the C library does not offer everywhere."""


@cache
def tables() -> Mapping[CallGroup, Numbers]:
    """Groups in brackets; a name and two numbers a line, `-` where a machine has no such call."""
    text = files("archer.judge").joinpath("syscalls.txt").read_text(encoding="utf-8")
    tables: dict[CallGroup, Numbers] = {}
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if len(words) == 1:
            current = tables[CallGroup(words[0].strip("[]"))] = {}
        elif words:
            name, x86, arm = words
            current[name] = (_number(x86), _number(arm))
    return tables


def _number(word: str) -> int | None:
    return None if word == "-" else int(word)


def numbers(group: CallGroup, machine: str) -> dict[str, int]:
    """The calls of a group that exist on a machine ("x86_64" or "aarch64")."""
    column = ARCHITECTURES.index(machine)
    present = ((name, row[column]) for name, row in tables()[group].items())
    return {name: number for name, number in present if number is not None}
