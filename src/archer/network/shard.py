"""Which part of a network one of several processes holds.

Heads, the inner width of feed-forwards and experts are divided evenly, so their numbers must be divisible.
The vocabulary is divided as evenly as it goes.  Norms and routers are whole everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from archer.errors import BadRequest
from archer.network.shape import Shape


@dataclass(frozen=True)
class Shard:
    """Number `rank`, from 0, of `of` shards."""

    rank: int
    of: int

    def span(self, size: int) -> slice:
        """Its part of `size` things in a row."""
        return slice(self.rank * size // self.of, (self.rank + 1) * size // self.of)

    def at(self, rank: int) -> Shard:
        """Another of the same shards."""
        return Shard(rank, self.of)


def divided(shape: Shape) -> dict[str, int]:
    """What must be divisible by the number of shards."""
    sizes = {"attention heads": shape.heads, "key heads": shape.kv_heads}
    experts = shape.experts
    if shape.dense_layers:
        sizes["feed-forward channels"] = shape.inner
    if experts is not None:
        sizes["experts"] = experts.count
        if experts.shared:
            sizes["channels of the shared expert"] = experts.shared
    return sizes


def possible(shape: Shape) -> list[int]:
    """The numbers of shards, above one, that a network can be divided into."""
    common = math.gcd(*divided(shape).values())
    return [count for count in range(2, common + 1) if common % count == 0]


def check(shape: Shape, shards: int) -> None:
    """Refuse a number of shards that does not divide the network."""
    uneven = [f"{size} {name}" for name, size in divided(shape).items() if size % shards]
    if not uneven:
        return
    able = possible(shape)
    remedy = (
        f"Choose {' or '.join(map(str, able))}."
        if able
        else "It runs on one device, without shards."
    )
    raise BadRequest(f"{shards} shards cannot divide {' and '.join(uneven)} evenly. {remedy}")


def shape_of(shape: Shape, shard: Shard) -> Shape:
    """The shape of one shard; refuses what cannot be divided."""
    check(shape, shard.of)
    experts = shape.experts
    if experts is not None:
        own = shard.span(experts.count)
        experts = replace(
            experts,
            shared=experts.shared // shard.of,
            first=own.start,
            held=own.stop - own.start,
        )
    words = shard.span(shape.vocabulary)
    return replace(
        shape,
        heads=shape.heads // shard.of,
        kv_heads=shape.kv_heads // shard.of,
        inner=shape.inner // shard.of,
        vocabulary=words.stop - words.start,
        experts=experts,
    )
