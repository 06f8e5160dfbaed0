"""What a request will ask of the engine, update by update: columns to compute, and how near the end it is.

P prompt columns, G response columns, M updates, R of them with a full pass.

A trajectory is recorded from a real request, or drawn up from M and R.  It knows no tokens and no time.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from archer.errors import BadRequest
from archer.results.step import Step

MOST_UPDATES = 1 << 16
"""Of a trajectory that is drawn up."""


class PassShare(NamedTuple):
    """One request's share of a pass."""

    columns: int
    """Computed."""
    keys: int
    """Columns that each of them attends to."""
    scored: int
    """Columns that reach the vocabulary head."""

    @classmethod
    def of(cls, step: Step[Any]) -> PassShare:
        """Of a request of one row."""
        (call,) = step.calls
        return cls(call.fed, step.canvas.extent if call.fed else 0, step.work.scored)


@dataclass(frozen=True)
class Workload:
    """One response from its first to its last update."""

    prompt: int
    length: int
    shares: tuple[PassShare, ...]
    """One per update; an update that reuses its logits computes 0 columns."""
    masks: tuple[int, ...]
    """Left before each update."""
    placed: tuple[int, ...]
    """Tokens that stand before each update; of a canvas that follows its answer, fewer than the rest."""

    @property
    def updates(self) -> int:
        return len(self.shares)

    @property
    def columns(self) -> int:
        """Computed from first to last."""
        return sum(share.columns for share in self.shares)

    def left(self, updates: int, computed: int) -> float:
        """Columns still to do after `made` updates, guessed as `Walk.columns_left` guesses."""
        masks = self.masks[updates]
        placed = self.placed[updates]
        each = computed / placed if placed and computed else self.shares[updates].columns
        return float(max(masks, 1) * each)


def recorded(prompt: int, length: int, steps: Iterable[Step[Any]]) -> Workload:
    """The trajectory of a request of one row, from its steps; runs them."""
    shares, masks, placed = [], [], []
    for step in steps:
        shares.append(PassShare.of(step))
        masks.append(int(step.before.masked.sum()))
        placed.append(int(step.before.placed.sum()))
    return Workload(prompt, length, tuple(shares), tuple(masks), tuple(placed))


@functools.lru_cache(maxsize=4096)
def even(prompt: int, length: int, updates: int, full: int, extra: int = 0) -> Workload:
    """M updates that place equally many tokens, R of them full; `extra` cached columns for shifted logits."""
    if not 1 <= full <= updates:
        raise BadRequest(
            f"Of {updates} updates at least 1 and at most all have a full pass, not {full}."
        )
    if updates > MOST_UPDATES:
        raise BadRequest(
            f"A response of {length} tokens would make {updates} updates, and at most {MOST_UPDATES} are "
            "simulated. Ask for shorter responses, or for fewer updates per token."
        )
    keys = prompt + length
    whole = PassShare(keys, keys, length)
    cached = PassShare(min(length + extra, keys), keys, length)
    shares = tuple(whole if index * full % updates < full else cached for index in range(updates))
    masks = tuple(length - length * index // updates for index in range(updates))
    return Workload(prompt, length, shares, masks, tuple(length - each for each in masks))
