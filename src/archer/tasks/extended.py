"""The extended tests (ET) of HumanEval and MBPP: lists of asserts, some of which no program can pass.

The asserts are graded as they were published. The clean variant leaves out those that the reference
solution itself fails or is too slow for, and is reported beside, never instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from archer.tasks.sources import Data, DataFile


@dataclass(frozen=True)
class ExtendedTests:
    """The asserts of one problem, and which of them are faulty."""

    entry_point: str
    asserts: tuple[str, ...]
    faulty: frozenset[int]

    def clean(self) -> tuple[str, ...]:
        """The asserts that the reference passes."""
        return tuple(text for n, text in enumerate(self.asserts) if n not in self.faulty)


def read_extended(
    data: Data, tests: DataFile, asserts: str, faults: DataFile, reference: str
) -> dict[str, ExtendedTests]:
    """By id as text. `asserts` and `reference` name the fields of the two files."""
    known: Mapping[str, Mapping[str, Any]] = data.object(faults)[reference]
    found = {}
    for row in data.rows(tests):
        bad = known.get(str(row["task_id"]), {"bad": ()})["bad"]
        faulty = frozenset(int(number) for number, _ in bad)
        found[str(row["task_id"])] = ExtendedTests(row["entry_point"], tuple(row[asserts]), faulty)
    return found
