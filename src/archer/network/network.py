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

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from archer.network.experts import Mixture
from archer.network.linear import Linear, Swiglu, allocated
from archer.network.shape import Router, Scheme
from archer.network.shape import Shape as Shape

if TYPE_CHECKING:
    from archer.network.group import AllShards, Group, ShardInPass


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
        scheme: Scheme = Scheme.PLAIN,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        weight = partial(allocated, device=device, dtype=dtype)
        large = partial(Linear.empty, scheme=scheme, device=device, dtype=dtype)
        self.shape = shape
        self.group: Group | None = None
        queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        fused = queries + 2 * keys
        self.attention_norm = weight(shape.width)
        self.qkv = weight(fused, shape.width)
        self.qkv_bias = weight(fused) if shape.qkv_bias else None
        self.query_norm = weight(shape.head_dim) if shape.qk_norm else None
        self.key_norm = weight(shape.head_dim) if shape.qk_norm else None
        self.out = weight(shape.width, queries)
        self.feed_norm = weight(shape.width)
        self.to_heads = Linear(self.qkv, bias=self.qkv_bias)
        self.to_queries = self.to_heads.rows(slice(0, queries))
        self.to_keys = self.to_heads.rows(slice(queries, queries + keys))
        self.to_values = self.to_heads.rows(slice(queries + keys, fused))
        self.from_heads = Linear(self.out)
        self.dense: Swiglu | None = None
        self.mixture: Mixture | None = None
        self.gate_up = self.down = self.gate_up_scale = self.down_scale = None
        self.router = self.router_bias = None
        self.expert_gate_up = self.expert_down = None
        self.expert_gate_up_scale = self.expert_down_scale = None
        experts = shape.experts if sparse else None
        inner = shape.inner if experts is None else experts.shared
        if inner:
            self.dense = Swiglu(large(2 * inner, shape.width), large(shape.width, inner))
            self.gate_up, self.gate_up_scale = self.dense.gate_up.values, self.dense.gate_up.scale
            self.down, self.down_scale = self.dense.down.values, self.dense.down.scale
        if experts is not None:
            self.router = weight(experts.count, shape.width)
            if experts.router is Router.GROUPED_SIGMOID:
                wide = torch.float64 if dtype == torch.float64 else torch.float32
                self.router_bias = allocated(experts.count, device=device, dtype=wide)
            gate_up = large(experts.here, 2 * experts.inner, shape.width)
            down = large(experts.here, shape.width, experts.inner)
            self.expert_gate_up, self.expert_gate_up_scale = gate_up.values, gate_up.scale
            self.expert_down, self.expert_down_scale = down.values, down.scale
            self.mixture = Mixture(
                experts, Linear(self.router), self.router_bias, Swiglu(gate_up, down)
            )

    def normed(self, hidden: Tensor) -> Tensor:
        """[N, d] -> [N, d], the input of the attention projections."""
        return rms_norm(hidden, self.attention_norm, self.shape.norm_epsilon)

    def project(self, normed: Tensor, angles: Angles) -> Projected:
        """[N, d] -> queries, keys and values in one product, rotated in one go."""
        shape = self.shape
        heads = self.to_heads(normed).view(-1, shape.heads + 2 * shape.kv_heads, shape.head_dim)
        turned = rotate(self._normed_heads(heads[:, : -shape.kv_heads]), angles)
        return Projected(
            turned[:, : shape.heads], turned[:, shape.heads :], heads[:, -shape.kv_heads :]
        )

    def queries(self, normed: Tensor) -> Tensor:
        """[N, d] -> [N, H, D]"""
        return self._head_norm(self._split(self.to_queries(normed)), self.query_norm)

    def keys(self, normed: Tensor) -> Tensor:
        """[N, d] -> [N, KV, D]"""
        return self._head_norm(self._split(self.to_keys(normed)), self.key_norm)

    def values(self, normed: Tensor) -> Tensor:
        """[N, d] -> [N, KV, D]"""
        return self._split(self.to_values(normed))

    def mix(self, attended: Tensor) -> Tensor:
        """[N, H, D] -> [N, d], the attention output projection."""
        return self._summed(self.from_heads(attended.flatten(1)))

    def feed_forward(self, hidden: Tensor) -> Tensor:
        """[N, d] -> [N, d], norm and SwiGLU or experts; the caller adds the residual."""
        normed = rms_norm(hidden, self.feed_norm, self.shape.norm_epsilon)
        if self.mixture is None:
            assert self.dense is not None
            return self._summed(self.dense(normed))
        answer = self.mixture(normed)
        return self._summed(answer if self.dense is None else answer + self.dense(normed))

    def feed_forwards(self) -> Iterator[Swiglu]:
        """What its feed-forward is made of: the dense one, the stack of experts."""
        if self.dense is not None:
            yield self.dense
        if self.mixture is not None:
            yield self.mixture.stack

    def cosine(self, values: Tensor, others: Tensor) -> Tensor:
        """[n, KV, D] twice -> [n]: their cosine, over the heads of all shards."""
        if self.group is None:
            return F.cosine_similarity(values.flatten(1), others.flatten(1), dim=1)
        return self.group.cosine(values.flatten(1), others.flatten(1))

    def _summed(self, share: Tensor) -> Tensor:
        return share if self.group is None else self.group.sum(share)

    def _normed_heads(self, heads: Tensor) -> Tensor:
        """[N, H + KV, D] -> the same: queries and keys, each kind by its own norm."""
        if self.query_norm is None:
            return heads
        queries, keys = heads[:, : self.shape.heads], heads[:, self.shape.heads :]
        parts = self._head_norm(queries, self.query_norm), self._head_norm(keys, self.key_norm)
        return torch.cat(parts, dim=1)

    def _head_norm(self, heads: Tensor, weight: Tensor | None) -> Tensor:
        return heads if weight is None else rms_norm(heads, weight, self.shape.norm_epsilon)

    def _split(self, flat: Tensor) -> Tensor:
        """[N, heads x D] -> [N, heads, D]"""
        return flat.view(-1, flat.shape[1] // self.shape.head_dim, self.shape.head_dim)


class Transformer(nn.Module):
    """Embedding, layers, final norm and vocabulary head; parameters are allocated, not initialised."""

    def __init__(
        self,
        shape: Shape,
        *,
        scheme: Scheme = Scheme.PLAIN,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """`scheme` says how feed-forwards and experts of all layers but the last are kept."""
        super().__init__()
        weight = partial(allocated, device=device, dtype=dtype)
        self.shape = shape
        self.scheme = scheme
        self.embedding = weight(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(
            Layer(
                shape,
                sparse=i >= shape.dense_layers,
                scheme=scheme if i < shape.layers - 1 else Scheme.PLAIN,
                device=device,
                dtype=dtype,
            )
            for i in range(shape.layers)
        )
        self.norm = weight(shape.width)
        self.head = weight(shape.vocabulary, shape.width)
        self.one_shard: ShardInPass | None = None
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

    def scales(self) -> dict[str, Tensor]:
        """The scales of parameters that hold whole numbers, by the name of the parameter."""
        names = {id(parameter): name for name, parameter in self.named_parameters()}
        return {
            names[id(linear.values)]: linear.scale
            for index in range(self.shape.layers)
            for part in self.layer(index).feed_forwards()
            for linear in (part.gate_up, part.down)
            if linear.scale is not None
        }

    def embed(self, tokens: Tensor) -> Tensor:
        """Long[N] -> [N, d]"""
        if self.one_shard is not None:
            return self.one_shard.embed(tokens, self.embedding)
        return F.embedding(tokens, self.embedding)

    def score(self, hidden: Tensor) -> Tensor:
        """[N, d] -> logits [N, V]"""
        if self.one_shard is not None:
            self.one_shard.note(hidden)
        return Linear(self.head)(rms_norm(hidden, self.norm, self.shape.norm_epsilon))

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


def rms_norm(hidden: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Root-mean-square norm: statistics in at least float32, then the weight in the model's dtype."""
    if hidden.dtype in (torch.float32, torch.float64):
        return F.rms_norm(hidden, weight.shape, weight, epsilon)
    wide = hidden.float()
    return F.rms_norm(wide, weight.shape, eps=epsilon).to(hidden.dtype) * weight


def rotate(heads: Tensor, angles: Angles) -> Tensor:
    """Half-rotate RoPE, [N, heads, D] -> the same: j < R/2 is paired with j + R/2, those from R on pass."""
    rotated = angles.cosine.shape[-1]
    wide = heads[..., :rotated].to(angles.cosine.dtype)
    paired = wide.roll(rotated // 2, -1)
    turned = (wide * angles.cosine + paired * angles.sine).to(heads.dtype)
    return turned if rotated == heads.shape[-1] else torch.cat((turned, heads[..., rotated:]), -1)
