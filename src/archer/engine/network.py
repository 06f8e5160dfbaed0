"""The one bidirectional network: LLaDA, Dream and DiffuCoder are shapes of it.

Axes: N token rows of one pass, d width, H query heads, KV key/value heads, D head size, V vocabulary.

It knows layers and nothing else: which columns are computed, where keys and values are kept and which
rows reach the vocabulary is decided in `forward`.  Projections are stored fused (q, k, v in one
matrix; gate and up in one matrix).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


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


class Projected(NamedTuple):
    """What one layer derives from its normed input, queries and keys rotated."""

    queries: Tensor  # [N, H, D]
    keys: Tensor  # [N, KV, D]
    values: Tensor  # [N, KV, D]


class Angles(NamedTuple):
    """Factors of the rotary embedding for N token rows, each [N, 1, D]; the first D/2 sines are negated."""

    cosine: Tensor
    sine: Tensor

    def take(self, rows: slice | Tensor) -> Angles:
        return Angles(self.cosine[rows], self.sine[rows])


class Layer(nn.Module):
    """One pre-norm block, offered in pieces so that a layer rule can compute some rows of some pieces."""

    def __init__(
        self, shape: Shape, *, device: torch.device | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        weight = partial(_allocated, device=device, dtype=dtype)
        self.shape = shape
        fused = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
        self.attention_norm = weight(shape.width)
        self.qkv = weight(fused, shape.width)
        self.qkv_bias = weight(fused) if shape.qkv_bias else None
        self.out = weight(shape.width, shape.heads * shape.head_dim)
        self.feed_norm = weight(shape.width)
        self.gate_up = weight(2 * shape.inner, shape.width)
        self.down = weight(shape.width, shape.inner)

    def normed(self, hidden: Tensor) -> Tensor:
        """[N, d] -> [N, d], the input of the attention projections."""
        return rms_norm(hidden, self.attention_norm, self.shape.norm_epsilon)

    def project(self, normed: Tensor, angles: Angles) -> Projected:
        """[N, d] -> queries, keys and values in one product, rotated in one go."""
        shape = self.shape
        heads = self._linear(normed, 0, self.qkv.shape[0])
        heads = heads.view(-1, shape.heads + 2 * shape.kv_heads, shape.head_dim)
        turned = rotate(heads[:, : -shape.kv_heads], angles)
        return Projected(
            turned[:, : shape.heads], turned[:, shape.heads :], heads[:, -shape.kv_heads :]
        )

    def queries(self, normed: Tensor) -> Tensor:
        """[N, d] -> [N, H, D]"""
        stop = self.shape.heads * self.shape.head_dim
        return self._linear(normed, 0, stop).view(-1, self.shape.heads, self.shape.head_dim)

    def keys(self, normed: Tensor) -> Tensor:
        """[N, d] -> [N, KV, D]"""
        return self._kv(normed, self.shape.heads)

    def values(self, normed: Tensor) -> Tensor:
        """[N, d] -> [N, KV, D]"""
        return self._kv(normed, self.shape.heads + self.shape.kv_heads)

    def mix(self, attended: Tensor) -> Tensor:
        """[N, H, D] -> [N, d], the attention output projection."""
        return F.linear(attended.flatten(1), self.out)

    def feed_forward(self, hidden: Tensor) -> Tensor:
        """[N, d] -> [N, d], norm and SwiGLU; the caller adds the residual."""
        normed = rms_norm(hidden, self.feed_norm, self.shape.norm_epsilon)
        gate, up = F.linear(normed, self.gate_up).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, self.down)

    def _kv(self, normed: Tensor, first_head: int) -> Tensor:
        shape = self.shape
        start = first_head * shape.head_dim
        flat = self._linear(normed, start, start + shape.kv_heads * shape.head_dim)
        return flat.view(-1, shape.kv_heads, shape.head_dim)

    def _linear(self, normed: Tensor, start: int, stop: int) -> Tensor:
        bias = None if self.qkv_bias is None else self.qkv_bias[start:stop]
        return F.linear(normed, self.qkv[start:stop], bias)


class Transformer(nn.Module):
    """Embedding, layers, final norm and vocabulary head; parameters are allocated, not initialised."""

    def __init__(
        self, shape: Shape, *, device: torch.device | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        weight = partial(_allocated, device=device, dtype=dtype)
        self.shape = shape
        self.embedding = weight(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(
            Layer(shape, device=device, dtype=dtype) for _ in range(shape.layers)
        )
        self.norm = weight(shape.width)
        self.head = weight(shape.vocabulary, shape.width)

    @property
    def device(self) -> torch.device:
        return self.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        return self.embedding.dtype

    def layer(self, index: int) -> Layer:
        layer = self.layers[index]
        assert isinstance(layer, Layer)
        return layer

    def embed(self, tokens: Tensor) -> Tensor:
        """Long[N] -> [N, d]"""
        return F.embedding(tokens, self.embedding)

    def score(self, hidden: Tensor) -> Tensor:
        """[N, d] -> logits [N, V]"""
        return F.linear(rms_norm(hidden, self.norm, self.shape.norm_epsilon), self.head)

    def angles(self, positions: Tensor) -> Angles:
        """Long[N] -> rotary angles; built in float32, as the released models do (float64 in float64)."""
        shape = self.shape
        wide = torch.float64 if self.dtype == torch.float64 else torch.float32
        exponent = torch.arange(0, shape.head_dim, 2, device=positions.device, dtype=wide)
        frequency = 1.0 / (shape.rope_theta ** (exponent / shape.head_dim))
        angle = positions.to(wide)[:, None, None] * frequency
        table = wide if shape.rope_float32 else self.dtype
        cosine, sine = angle.cos().to(table), angle.sin().to(table)
        return Angles(torch.cat((cosine, cosine), dim=-1), torch.cat((-sine, sine), dim=-1))


def _allocated(*size: int, device: torch.device | None, dtype: torch.dtype | None) -> nn.Parameter:
    return nn.Parameter(torch.empty(size, device=device, dtype=dtype), requires_grad=False)


def rms_norm(hidden: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Root-mean-square norm: statistics in at least float32, then the weight in the model's dtype."""
    if hidden.dtype in (torch.float32, torch.float64):
        return F.rms_norm(hidden, weight.shape, weight, epsilon)
    wide = hidden.float()
    return F.rms_norm(wide, weight.shape, eps=epsilon).to(hidden.dtype) * weight


def rotate(heads: Tensor, angles: Angles) -> Tensor:
    """Half-rotate RoPE: dimension j is paired with j + D/2.  [N, heads, D] -> the same."""
    wide = heads.to(angles.cosine.dtype)
    paired = wide.roll(wide.shape[-1] // 2, -1)
    return (wide * angles.cosine + paired * angles.sine).to(heads.dtype)
