"""What distinguishes two networks: sizes, alignment of logits, what a column sees. Without torch."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

Columns = TypeVar("Columns", int, "NDArray[np.int64]", "Tensor")


class Kept(StrEnum):
    """How one large matrix is kept, and so multiplied with; see `linear`."""

    PLAIN = "plain"
    """In the network's dtype."""
    SMALL = "small"
    """Whole numbers with scales, restored for each product: less memory, more time."""
    WHOLE = "whole"
    """Whole numbers that are multiplied as such, with rows that are rounded for it: less of both."""


class Product(StrEnum):
    """The kinds of large products."""

    QKV = "qkv"
    OUT = "out"
    GATE_UP = "gate_up"
    DOWN = "down"
    EXPERTS = "experts"
    HEAD = "head"


FEED_FORWARDS = (Product.GATE_UP, Product.DOWN, Product.EXPERTS)
LAYERS = (Product.QKV, Product.OUT, *FEED_FORWARDS)


class Scheme(StrEnum):
    """How the large matrices of a network are kept, all together."""

    PLAIN = "plain"
    INT8 = "int8"
    """Feed-forwards and experts small, of all layers but the last."""
    W8A8 = "w8a8"
    """All products of layers in whole numbers."""
    W8A8_HEAD = "w8a8-head"
    """The same, and the vocabulary head."""

    @property
    def whole(self) -> bool:
        """Whether rows are rounded, too."""
        return self in (Scheme.W8A8, Scheme.W8A8_HEAD)

    def keeps(self, product: Product, *, last: bool = False) -> Kept:
        """How a matrix is kept; `last` says that it is in the last layer."""
        if product in SCHEMES[self].products and not (last and SCHEMES[self].last_plain):
            return SCHEMES[self].kept
        return Kept.PLAIN


@dataclass(frozen=True)
class Keeping:
    """Which products a scheme is about."""

    kept: Kept
    products: tuple[Product, ...]
    last_plain: bool = False
    """Whether the last layer stays in the network's dtype."""


SCHEMES = {
    Scheme.PLAIN: Keeping(Kept.PLAIN, ()),
    Scheme.INT8: Keeping(Kept.SMALL, FEED_FORWARDS, last_plain=True),
    Scheme.W8A8: Keeping(Kept.WHOLE, LAYERS),
    Scheme.W8A8_HEAD: Keeping(Kept.WHOLE, (*LAYERS, Product.HEAD)),
}


class Router(StrEnum):
    """How scores become a choice."""

    SOFTMAX = "softmax"
    """The largest probabilities, which are the weights as they are (LLaDA-MoE)."""
    RENORMALISED = "renormalised softmax"
    """The largest probabilities, brought to a sum of one (Qwen3-MoE, RND1)."""
    GROUPED_SIGMOID = "grouped sigmoid"
    """The best of the best groups by biased sigmoids; weights without the bias, brought to a sum (LLaDA2)."""


@dataclass(frozen=True)
class Experts:
    """The mixture of a network: its sizes, and how rows are sent."""

    count: int
    active: int
    """Experts per row."""
    inner: int
    """Inner width of each."""
    shared: int
    """Inner width of the expert that every row goes through; 0 where there is none."""
    dense_layers: int
    """Layers at the front with an ordinary feed-forward."""
    router: Router
    groups: int = 1
    kept_groups: int = 1
    scale: float = 1.0
    """What the weights of a row add up to with grouped sigmoids."""
    first: int = 0
    """The first expert whose weights are here."""
    held: int | None = None
    """How many are here, where the others are with other shards; None means all."""

    @property
    def here(self) -> int:
        """How many experts have their weights here."""
        return self.count if self.held is None else self.held


@dataclass(frozen=True)
class Dense:
    """Every column sees every column."""


@dataclass(frozen=True)
class Blocks:
    """Block-causal attention: a column sees the blocks up to its own."""

    size: int
    """Columns per block."""
    from_response: bool = False
    """Counted back from the prompt's end, so that a short block stands first; else from the first token."""

    def index(self, columns: Columns, prompt: int) -> Columns:
        """The blocks of some columns, behind `prompt` columns of a prompt."""
        return (columns + self._missing(prompt)) // self.size

    def start(self, columns: Columns, prompt: int) -> Columns:
        """Where their blocks begin; below 0 in a short first block."""
        return self.index(columns, prompt) * self.size - self._missing(prompt)

    def stop(self, columns: Columns, prompt: int) -> Columns:
        """One past the last column of their blocks."""
        return self.start(columns, prompt) + self.size

    def _missing(self, prompt: int) -> int:
        """Columns that the first block lacks."""
        return -prompt % self.size if self.from_response else 0


@dataclass(frozen=True)
class PromptFirst:
    """No column of the prompt sees the response; every column of the response sees all."""


AttentionKind = Dense | Blocks | PromptFirst
DENSE = Dense()


@dataclass(frozen=True)
class Shape:
    """Everything that distinguishes two networks of this family."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocabulary: int
    norm_epsilon: float
    rope_theta: float
    qkv_bias: bool
    rope_float32: bool
    """Rotate in float32 whatever the model's dtype (LLaDA); otherwise in the model's dtype (Dream)."""
    max_positions: int
    qk_norm: bool = False
    """A norm of every query and key head, before rotation."""
    rotary: int | None = None
    """Dimensions of a head that are rotated, the first ones; None means all."""
    experts: Experts | None = None
    """The mixture that takes the place of the feed-forward; None where every layer is dense."""
    shift: bool = False
    """The output at a column scores the token of the next column."""
    attention: AttentionKind = DENSE
    tied: bool = False
    """The vocabulary head is the embedding."""

    @cached_property
    def dense_layers(self) -> int:
        """Layers at the front with an ordinary feed-forward."""
        return self.layers if self.experts is None else min(self.experts.dense_layers, self.layers)


def inputs_of(shape: Shape) -> set[int]:
    """How many inputs the large products of a network have."""
    widths = {shape.width, shape.heads * shape.head_dim}
    if shape.dense_layers:
        widths.add(shape.inner)
    if (experts := shape.experts) is not None:
        widths |= {experts.inner, experts.shared or experts.inner}
    return widths


def channels_of(shape: Shape, scheme: Scheme) -> set[int]:
    """How many outputs those have that a scheme is about."""
    widths = inputs_of(shape) | {shape.kv_heads * shape.head_dim}
    return widths | {shape.vocabulary} if Product.HEAD in SCHEMES[scheme].products else widths
