"""What a cache policy may use when it chooses rows inside each layer.

Axes: n token rows of one sequence, d width, H query heads, KV key heads, D head size.

Most policies choose columns and never look here.  One that keeps features of a layer gives the loop a
`RowRule`; the loop then hands it each layer in pieces, one sequence at a time.  Only protocols: the network
and the pass implement them without knowing any policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

Local = slice | Tensor
"""Which rows of a sequence: a span with both its ends, or Long[n]; counted from its first column."""


class LayerPieces(Protocol):
    """One layer, offered in pieces; heads come before rotation."""

    def normed(self, hidden: Tensor) -> Tensor: ...
    def queries(self, normed: Tensor) -> Tensor: ...
    def keys(self, normed: Tensor) -> Tensor: ...
    def values(self, normed: Tensor) -> Tensor: ...
    def mix(self, attended: Tensor) -> Tensor: ...
    def feed_forward(self, hidden: Tensor) -> Tensor: ...
    def likeness(self, values: Tensor, others: Tensor) -> Tensor: ...


class RowInPass(Protocol):
    """One row of the batch inside a pass that computes all its columns."""

    @property
    def prompt(self) -> int:
        """How many of its columns are prompt; with shifted logits the last one counts as response."""
        ...

    @property
    def row(self) -> int:
        """Its place among the running rows."""
        ...

    def is_last(self, layer: int) -> bool:
        """Behind it only response rows are read."""
        ...

    def values(self, layer: int, rows: Local) -> Tensor:
        """[n, KV, D]: what the store holds."""
        ...

    def write_keys(self, layer: int, rows: Local, keys: Tensor) -> None:
        """Rotate keys [n, KV, D] to their positions and store them."""
        ...

    def write_values(self, layer: int, rows: Local, values: Tensor) -> None: ...

    def attend(self, layer: int, rows: Local, queries: Tensor) -> Tensor:
        """Rotate queries [n, H, D] to their positions; each sees the whole store."""
        ...

    def feature(self, name: str, layer: int, like: Tensor) -> Tensor:
        """[columns, d]: memory of this row and layer, zeros at first, to be written in place."""
        ...


class RowRule(Protocol):
    """How one layer turns the hidden states [columns, d] of one sequence into the next ones."""

    def __call__(self, index: int, layer: LayerPieces, hidden: Tensor, at: RowInPass) -> Tensor: ...


@dataclass(frozen=True)
class Ruled:
    """A rule for the next pass, and which rows it refreshes entirely."""

    rule: RowRule
    full: tuple[bool, ...]
