"""The one network: LLaDA, Dream, DiffuCoder, LLaDA-MoE and LLaDA2 are shapes of it.

Axes: N token rows of one pass, d width, H query heads, KV key/value heads, D head size, R rotated dimensions
of a head, V vocabulary.

It knows layers and nothing else: which columns are computed, where keys and values are kept and which
rows reach the vocabulary is decided in `forward`.  Projections are stored fused (q, k, v in one
matrix; gate and up in one matrix), the experts of a layer as one stack.

A shard is this network in a smaller shape.  What it makes after attention and after the feed-forward is its
share of a sum, which its group adds up; without a group nothing is added.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from archer.network.experts import Stack, mixed, send
from archer.network.linear import SCALES, product, scales
from archer.network.shape import Router
from archer.network.shape import Shape as Shape

if TYPE_CHECKING:
    from archer.network.group import Group
    from archer.network.shard_protocols import AllShards, OneShard


class Projected(NamedTuple):
    """What one layer derives from its normed input, queries and keys rotated."""

    queries: Tensor  # [N, H, D]
    keys: Tensor  # [N, KV, D]
    values: Tensor  # [N, KV, D]


class Angles(NamedTuple):
    """Factors of the rotary embedding for N token rows, each [N, 1, R]; the first R/2 sines are negated."""

    cosine: Tensor
    sine: Tensor

    def take(self, rows: slice | Tensor) -> Angles:
        return Angles(self.cosine[rows], self.sine[rows])


class Layer(nn.Module):
    """One pre-norm block, offered in pieces so that a layer rule can compute some rows of some pieces.

    Its feed-forward is a dense one, a mixture of experts, or a mixture beside a dense one that every row goes
    through: what is None is not there.
    """

    def __init__(
        self,
        shape: Shape,
        *,
        sparse: bool = False,
        int8: bool = False,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        weight = partial(_allocated, device=device, dtype=dtype)
        matrix = partial(_matrix, int8=int8, device=device, dtype=dtype)
        self.shape = shape
        self.group: Group | None = None
        fused = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
        self.attention_norm = weight(shape.width)
        self.qkv = weight(fused, shape.width)
        self.qkv_bias = weight(fused) if shape.qkv_bias else None
        self.query_norm = weight(shape.head_dim) if shape.qk_norm else None
        self.key_norm = weight(shape.head_dim) if shape.qk_norm else None
        self.out = weight(shape.width, shape.heads * shape.head_dim)
        self.feed_norm = weight(shape.width)
        self.gate_up = self.down = self.gate_up_scale = self.down_scale = None
        self.router = self.router_bias = None
        self.expert_gate_up = self.expert_down = None
        self.expert_gate_up_scale = self.expert_down_scale = None
        experts = shape.experts if sparse else None
        inner = shape.inner if experts is None else experts.shared
        if inner:
            self.gate_up, self.gate_up_scale = matrix(2 * inner, shape.width)
            self.down, self.down_scale = matrix(shape.width, inner)
        if experts is not None:
            sizes = (2 * experts.inner, shape.width), (shape.width, experts.inner)
            self.router = weight(experts.count, shape.width)
            if experts.router is Router.GROUPED_SIGMOID:
                self.router_bias = _allocated(
                    experts.count, device=device, dtype=_at_least_32(dtype)
                )
            self.expert_gate_up, self.expert_gate_up_scale = matrix(experts.here, *sizes[0])
            self.expert_down, self.expert_down_scale = matrix(experts.here, *sizes[1])

    def normed(self, hidden: Tensor) -> Tensor:
        """[N, d] -> [N, d], the input of the attention projections."""
        return rms_norm(hidden, self.attention_norm, self.shape.norm_epsilon)

    def project(self, normed: Tensor, angles: Angles) -> Projected:
        """[N, d] -> queries, keys and values in one product, rotated in one go."""
        shape = self.shape
        heads = self._linear(normed, 0, self.qkv.shape[0])
        heads = heads.view(-1, shape.heads + 2 * shape.kv_heads, shape.head_dim)
        turned = rotate(self._normed_heads(heads[:, : -shape.kv_heads]), angles)
        return Projected(
            turned[:, : shape.heads], turned[:, shape.heads :], heads[:, -shape.kv_heads :]
        )

    def queries(self, normed: Tensor) -> Tensor:
        """[N, d] -> [N, H, D]"""
        stop = self.shape.heads * self.shape.head_dim
        heads = self._linear(normed, 0, stop).view(-1, self.shape.heads, self.shape.head_dim)
        return self._head_norm(heads, self.query_norm)

    def keys(self, normed: Tensor) -> Tensor:
        """[N, d] -> [N, KV, D]"""
        return self._head_norm(self._kv(normed, self.shape.heads), self.key_norm)

    def values(self, normed: Tensor) -> Tensor:
        """[N, d] -> [N, KV, D]"""
        return self._kv(normed, self.shape.heads + self.shape.kv_heads)

    def mix(self, attended: Tensor) -> Tensor:
        """[N, H, D] -> [N, d], the attention output projection."""
        return self._summed(F.linear(attended.flatten(1), self.out))

    def feed_forward(self, hidden: Tensor) -> Tensor:
        """[N, d] -> [N, d], norm and SwiGLU or experts; the caller adds the residual."""
        normed = rms_norm(hidden, self.feed_norm, self.shape.norm_epsilon)
        if self.router is None:
            return self._summed(self._swiglu(normed))
        answer = self._experts(normed)
        return self._summed(answer if self.gate_up is None else answer + self._swiglu(normed))

    def cosine(self, values: Tensor, others: Tensor) -> Tensor:
        """[n, KV, D] twice -> [n]: their cosine, over the heads of all shards."""
        if self.group is None:
            return F.cosine_similarity(values.flatten(1), others.flatten(1), dim=1)
        return self.group.cosine(values.flatten(1), others.flatten(1))

    def _summed(self, share: Tensor) -> Tensor:
        return share if self.group is None else self.group.sum(share)

    def _swiglu(self, normed: Tensor) -> Tensor:
        assert self.gate_up is not None
        assert self.down is not None
        gate, up = product(normed, self.gate_up, self.gate_up_scale).chunk(2, dim=-1)
        return product(F.silu(gate) * up, self.down, self.down_scale)

    def _experts(self, normed: Tensor) -> Tensor:
        assert self.shape.experts is not None
        assert self.router is not None
        sent = send(normed, self.router, self.router_bias, self.shape.experts)
        return mixed(normed, sent, self.stack())

    def stack(self) -> Stack:
        """The experts' weights."""
        assert self.expert_gate_up is not None
        assert self.expert_down is not None
        scales = self.expert_gate_up_scale, self.expert_down_scale
        return Stack(self.expert_gate_up, self.expert_down, *scales)

    def _normed_heads(self, heads: Tensor) -> Tensor:
        """[N, H + KV, D] -> the same: queries and keys, each kind by its own norm."""
        if self.query_norm is None:
            return heads
        queries, keys = heads[:, : self.shape.heads], heads[:, self.shape.heads :]
        parts = self._head_norm(queries, self.query_norm), self._head_norm(keys, self.key_norm)
        return torch.cat(parts, dim=1)

    def _head_norm(self, heads: Tensor, weight: Tensor | None) -> Tensor:
        return heads if weight is None else rms_norm(heads, weight, self.shape.norm_epsilon)

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
        self,
        shape: Shape,
        *,
        int8: bool = False,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """With `int8` feed-forwards and experts of all layers but the last are whole numbers with scales."""
        super().__init__()
        weight = partial(_allocated, device=device, dtype=dtype)
        self.shape = shape
        self.int8 = int8
        self.embedding = weight(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(
            Layer(
                shape,
                sparse=i >= shape.dense_layers,
                int8=int8 and i < shape.layers - 1,
                device=device,
                dtype=dtype,
            )
            for i in range(shape.layers)
        )
        self.norm = weight(shape.width)
        self.head = weight(shape.vocabulary, shape.width)
        self.one_shard: OneShard | None = None
        self.all_shards: AllShards | None = None
        self.compiled = False
        """Whether its passes go through torch.compile; see `pieces`."""

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
        if self.one_shard is not None:
            return self.one_shard.embed(tokens, self.embedding)
        return F.embedding(tokens, self.embedding)

    def score(self, hidden: Tensor) -> Tensor:
        """[N, d] -> logits [N, V]"""
        if self.one_shard is not None:
            self.one_shard.note(hidden)
        return F.linear(rms_norm(hidden, self.norm, self.shape.norm_epsilon), self.head)

    def angles(self, positions: Tensor) -> Angles:
        """Long[N] -> rotary angles; built in float32, as the released models do (float64 in float64)."""
        shape = self.shape
        wide = torch.float64 if self.dtype == torch.float64 else torch.float32
        rotated = shape.head_dim if shape.rotary is None else shape.rotary
        exponent = torch.arange(0, rotated, 2, device=positions.device, dtype=wide)
        frequency = 1.0 / (shape.rope_theta ** (exponent / rotated))
        angle = positions.to(wide)[:, None, None] * frequency
        table = wide if shape.rope_float32 else self.dtype
        cosine, sine = angle.cos().to(table), angle.sin().to(table)
        return Angles(torch.cat((cosine, cosine), dim=-1), torch.cat((-sine, sine), dim=-1))


def _allocated(*size: int, device: torch.device | None, dtype: torch.dtype | None) -> nn.Parameter:
    return nn.Parameter(torch.empty(size, device=device, dtype=dtype), requires_grad=False)


def _matrix(
    *size: int, int8: bool, device: torch.device | None, dtype: torch.dtype | None
) -> tuple[nn.Parameter, nn.Parameter | None]:
    """A matrix or a stack of them, and its scales where it is to hold whole numbers."""
    if not int8:
        return _allocated(*size, device=device, dtype=dtype), None
    whole = _allocated(*size, device=device, dtype=torch.int8)
    return whole, _allocated(*size[:-1], scales(size[-1]), device=device, dtype=SCALES)


def _at_least_32(dtype: torch.dtype | None) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def rms_norm(hidden: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Root-mean-square norm: statistics in at least float32, then the weight in the model's dtype."""
    if hidden.dtype in (torch.float32, torch.float64):
        return F.rms_norm(hidden, weight.shape, weight, epsilon)
    wide = hidden.float()
    return F.rms_norm(wide, weight.shape, eps=epsilon).to(hidden.dtype) * weight


def rotate(heads: Tensor, angles: Angles) -> Tensor:
    """Half-rotate RoPE: dimension j < R/2 is paired with j + R/2, those from R on pass.

    [N, heads, D] -> the same.
    """
    rotated = angles.cosine.shape[-1]
    wide = heads[..., :rotated].to(angles.cosine.dtype)
    paired = wide.roll(rotated // 2, -1)
    turned = (wide * angles.cosine + paired * angles.sine).to(heads.dtype)
    return turned if rotated == heads.shape[-1] else torch.cat((turned, heads[..., rotated:]), -1)
