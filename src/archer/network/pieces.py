"""The arithmetic of a pass between two attentions, in pieces that can be compiled.

Axes: N token rows, d width, H / KV heads, D head size, V vocabulary.

Everything that depends on the layout of rows and columns (where keys are written, what a query sees) stays
outside: a piece is given packed token rows and knows their number alone.  So a process compiles each piece
once with a variable number of rows, whatever prompts, lengths and requests come by.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache

import torch
from torch import Tensor

from archer.network.network import Angles, Layer, Projected, Transformer, rotate

Rows = slice | Tensor


@dataclass(frozen=True)
class Pieces:
    """The four pieces; see the functions of the same names."""

    enter: Callable[[Layer, Tensor, Angles], Projected]
    enter_last: Callable[[Layer, Tensor, Angles, Rows], Projected]
    leave: Callable[[Layer, Tensor, Tensor], Tensor]
    score: Callable[[Transformer, Tensor], Tensor]


def enter(layer: Layer, hidden: Tensor, angles: Angles) -> Projected:
    """[N, d] -> what the layer's attention needs."""
    return layer.project(layer.normed(hidden), angles)


def enter_last(layer: Layer, hidden: Tensor, angles: Angles, kept: Rows) -> Projected:
    """The same with queries of the `kept` rows alone."""
    normed = layer.normed(hidden)
    queries = rotate(layer.queries(normed[kept]), angles.take(kept))
    return Projected(queries, rotate(layer.keys(normed), angles), layer.values(normed))


def leave(layer: Layer, hidden: Tensor, attended: Tensor) -> Tensor:
    """[N, d], [N, H, D] -> [N, d]: output projection and feed-forward, each with its residual."""
    hidden = hidden + layer.mix(attended)
    return hidden + layer.feed_forward(hidden)


def score(network: Transformer, hidden: Tensor) -> Tensor:
    """[N, d] -> logits [N, V]"""
    return network.score(hidden)


PLAIN = Pieces(enter, enter_last, leave, score)


def pieces_of(network: Transformer) -> Pieces:
    """The pieces by which a network makes its passes."""
    return compiled() if network.compiled else PLAIN


@cache
def compiled() -> Pieces:
    """The same through torch.compile, once per process: one graph each, whatever N is."""
    pieces = (
        torch.compile(getattr(PLAIN, item.name), fullgraph=True, dynamic=True)
        for item in fields(Pieces)
    )
    return Pieces(*pieces)
