"""What a pass computed, counted where it is computed, and the operations behind it: the cost model.

A multiplication with an addition counts as two operations.  Norms, rotation and softmax are left out: they
are no part of the limit, so whatever they cost shows up as a fraction below 1.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from archer.network.shape import Shape


@dataclass
class Work:
    """Counts of one pass, or of one request's share of it."""

    keys: int = 0
    """Token rows x layers whose keys were computed."""
    values: int = 0
    """Token rows x layers whose values were computed."""
    mixed: int = 0
    """Token rows x layers that went through attention and feed-forward."""
    pairs: int = 0
    """Query-key pairs x layers."""
    scored: int = 0
    """Token rows that reached the vocabulary head."""
    routed: int = 0
    """Token rows x layers whose feed-forward was a mixture of experts."""

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def operations(work: Work, shape: Shape) -> int:
    """Multiplications and additions behind the counters of a pass."""
    heads, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    projected = (work.keys + work.values) * shape.width * keys
    mixed = (
        work.mixed * shape.width * 2 * heads
        + (work.mixed - work.routed) * 3 * shape.width * shape.inner
    )
    if (experts := shape.experts) is not None:
        each = experts.count + 3 * (experts.active * experts.inner + experts.shared)
        mixed += work.routed * shape.width * each
    attended = work.pairs * 2 * heads
    scored = work.scored * shape.width * shape.vocabulary
    return 2 * (projected + mixed + attended + scored)
