"""Which rows and columns of a stored tensor one shard reads, and where in its parameter they go.

A fused parameter is cut part by part: a plain cut of [queries | keys | values] would give one shard nothing
but queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from archer.network.shape import Shape
from archer.network.shard import Shard

WIDE = frozenset(("out", "down"))
"""Parameters that are cut by columns: each shard has the inputs that it makes itself."""
BY_EXPERT = frozenset(("expert_gate_up", "expert_down"))


@dataclass(frozen=True)
class Slot:
    """Where one tensor of the checkpoint goes: rows [row, row + shape[0]) of a parameter or of one expert."""

    parameter: str
    row: int
    shape: tuple[int, ...]
    expert: int | None = None


@dataclass(frozen=True)
class Slice:
    """Some rows and columns of a stored tensor, and where they go."""

    rows: slice
    columns: slice | None
    """None means all; a vector has none."""
    row: int
    """First row of the target."""
    expert: int | None


def slices_of(slot: Slot, shape: Shape, shard: Shard | None) -> Iterator[Slice]:
    """What is read of the tensor in this slot of the whole network's `shape`; it may be nothing."""
    if shard is None:
        yield Slice(slice(0, slot.shape[0]), None, slot.row, slot.expert)
        return
    name = slot.parameter.rpartition(".")[2]
    if name in BY_EXPERT:
        assert shape.experts is not None
        own = shard.span(shape.experts.count)
        if slot.expert is not None and own.start <= slot.expert < own.stop:
            yield Slice(slice(0, slot.shape[0]), None, slot.row, slot.expert - own.start)
        return
    columns = shard.span(slot.shape[1]) if name in WIDE else None
    parts = _parts(name, slot, shape)
    if parts is None:
        yield Slice(slice(0, slot.shape[0]), columns, slot.row, None)
        return
    target = 0
    for begin, size in zip(accumulate(parts, initial=0), parts, strict=False):
        own = shard.span(size)
        if slot.row <= begin < slot.row + slot.shape[0]:
            first = begin - slot.row
            yield Slice(slice(first + own.start, first + own.stop), columns, target, None)
        target += own.stop - own.start


def _parts(name: str, slot: Slot, shape: Shape) -> tuple[int, ...] | None:
    """Rows of the parts that a parameter of the whole network consists of; None where it is not cut."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    match name:
        case "qkv" | "qkv_bias":
            return queries, keys, keys
        case "gate_up":
            return slot.shape[0], slot.shape[0]
        case "embedding" | "head":
            return (shape.vocabulary,)
    return None
