"""Where each tensor of a checkpoint stands in a network: as a slot of the whole, as slices of a shard.

Names, shapes and rows alone; what is read, checked and copied is the business of others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from archer.loading.architecture import Architecture, In, MatrixPart, Placement
from archer.network.network import Transformer
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


def slots_of(architecture: Architecture, shape: Shape) -> dict[str, Slot]:
    """Every tensor that a checkpoint of this architecture and shape must hold."""
    blank = Transformer(shape, device=torch.device("meta"))
    sizes = {name: tuple(each.shape) for name, each in blank.named_parameters()}
    slots = {}
    for place in architecture.placements:
        if shape.tied and place.parameter == "head":
            continue
        for i in _layers(place, shape):
            parameter = place.parameter.format(i=i)
            for expert in _experts(place, shape):
                size = sizes[parameter] if expert is None else sizes[parameter][1:]
                row, rows = _rows(place.part, size[0], shape)
                name = place.tensor.format(i=i, e=expert)
                slots[name] = Slot(parameter, row, (rows, *size[1:]), expert)
    return slots


def slices_of(slot: Slot, shape: Shape, shard: Shard | None) -> Iterator[Slice]:
    """What a shard reads of the tensor in this slot of the whole network's `shape`; it may be nothing.

    A fused parameter is cut part by part: a plain cut of [queries | keys | values] would give one shard
    nothing but queries.
    """
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


def named_tensors(network: Transformer, architecture: Architecture) -> dict[str, Tensor]:
    """The network's weights under the names of a checkpoint, as views; the inverse of loading."""
    parameters = dict(network.named_parameters(remove_duplicate=False))
    slots = slots_of(architecture, network.shape)
    return {
        name: target_of(parameters[slot.parameter], own)
        for name, slot in slots.items()
        for own in slices_of(slot, network.shape, None)
    }


def _layers(place: Placement, shape: Shape) -> range:
    """The layers that have the tensor; one turn for a tensor outside the layers."""
    if "{i}" not in place.tensor:
        return range(1)
    first, last = shape.dense_layers, shape.layers
    return {In.EVERY: range(last), In.DENSE: range(first), In.SPARSE: range(first, last)}[
        place.layers
    ]


def _experts(place: Placement, shape: Shape) -> Sequence[int | None]:
    """The experts that have one; one turn without a number for a tensor outside of them."""
    if "{e}" not in place.tensor or shape.experts is None:
        return (None,)
    return range(shape.experts.count)


def _rows(part: MatrixPart, size: int, shape: Shape) -> tuple[int, int]:
    """First row and number of rows of a part of `size` rows."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    half = size // 2
    return {
        MatrixPart.ALL: (0, size),
        MatrixPart.QUERIES: (0, queries),
        MatrixPart.KEYS: (queries, keys),
        MatrixPart.VALUES: (queries + keys, keys),
        MatrixPart.GATE: (0, half),
        MatrixPart.UP: (half, half),
    }[part]


def target_of(parameter: Tensor, own: Slice) -> Tensor:
    """The part of `parameter` that is filled; of scales, [..., rows], the same rows."""
    matrix = parameter if own.expert is None else parameter[own.expert]
    return matrix.narrow(0, own.row, own.rows.stop - own.rows.start)
