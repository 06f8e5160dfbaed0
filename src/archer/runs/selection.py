"""Which problems of a task a run covers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from archer.errors import BadRequest
from archer.tasks.base import Sample

NAMED = 5
"""Ids that an error lists."""


@dataclass(frozen=True)
class Selection:
    """Ids first, then the first N of them, then one share of that."""

    subset: tuple[str, ...] = ()
    limit: int | None = None
    shard: tuple[int, int] | None = None
    """(i, n): of n shares the i-th, counted from 1."""

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise BadRequest(f"The limit must be a number above 0, not {self.limit}.")
        if self.shard is not None and not 1 <= self.shard[0] <= self.shard[1]:
            i, n = self.shard
            raise BadRequest(f"The shard {i}/{n} is not a share: give 1/{n} to {n}/{n}.")
        if len(set(self.subset)) < len(self.subset):
            raise BadRequest("The subset names a problem twice.")

    def of(self, samples: Sequence[Sample]) -> list[Sample]:
        """The chosen problems, in the order of the data."""
        chosen = list(samples)
        if self.subset:
            known = {str(sample.id) for sample in samples}
            unknown = [key for key in self.subset if key not in known]
            if unknown:
                shown = ", ".join(map(repr, unknown[:NAMED]))
                raise BadRequest(
                    f"The task has no problem {shown}; ids are such as {_some(samples)}."
                )
            chosen = [sample for sample in samples if str(sample.id) in self.subset]
        chosen = chosen[: self.limit]
        if self.shard is not None:
            i, n = self.shard
            chosen = chosen[i - 1 :: n]
        if not chosen:
            raise BadRequest("No problem is left to evaluate; choose a larger selection.")
        return chosen

    def to_dict(self) -> dict[str, Any]:
        return {
            "subset": list(self.subset),
            "limit": self.limit,
            "shard": None if self.shard is None else "{}/{}".format(*self.shard),
        }


def parse_shard(text: str | None) -> tuple[int, int] | None:
    """`2/4` -> (2, 4)."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if not match:
        raise BadRequest(f"A shard is a share such as 1/4, not {text!r}.")
    return int(match[1]), int(match[2])


def parse_subset(text: str | None) -> tuple[str, ...]:
    """Ids separated by commas; refused without any, because that would mean all."""
    if text is None:
        return ()
    keys = tuple(key.strip() for key in text.split(",") if key.strip())
    if not keys:
        raise BadRequest(f"A subset is ids separated by commas, not {text!r}.")
    return keys


def _some(samples: Sequence[Sample]) -> str:
    return ", ".join(str(sample.id) for sample in samples[:NAMED])
