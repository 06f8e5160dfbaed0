"""The sizes of a network: everything that distinguishes two of this family."""

from __future__ import annotations

from dataclasses import dataclass

from archer.network.experts import Experts


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

    @property
    def dense_layers(self) -> int:
        """Layers at the front with an ordinary feed-forward."""
        return self.layers if self.experts is None else min(self.experts.dense_layers, self.layers)
