"""What a pass computed, counted where it is computed: the cost model without a profiler."""

from __future__ import annotations

from dataclasses import dataclass, fields


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
