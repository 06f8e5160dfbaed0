"""The one network: LLaDA, Dream, A2D, SDAR, LLaDA-MoE, LLaDA2 and their relatives are shapes of it.

Axes: N token rows of one pass, d width, H query heads, KV key/value heads, D head size, R rotated dimensions
of a head, V vocabulary.

It knows layers and nothing else: which columns are computed, where keys and values are kept and which
rows reach the vocabulary is decided in `forward`.  Projections are stored fused (q, k, v in one
matrix; gate and up in one matrix), the experts of a layer as one stack.

A shard is this network in a smaller shape.  What it makes after attention and after the feed-forward is its
share of a sum, which its group adds up; without a group nothing is added.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from archer.network.experts import Mixture
from archer.network.linear import Linear, Swiglu, allocated
from archer.network.shape import Kept, Product, Router, Scheme
from archer.network.shape import Shape as Shape

if TYPE_CHECKING:
    from archer.network.group import AllShards, Group, ShardInPass


FEW = 1 << 17
"""Numbers that are rotated as quickly in a few whole operations as in many small ones."""


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
        last: bool = False,
        scheme: Scheme = Scheme.PLAIN,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        weight = partial(allocated, device=device, dtype=dtype)

        def large(product: Product, *size: int) -> Linear:
            kept = scheme.keeps(product, last=last)
            return Linear.empty(*size, kept=kept, device=device, dtype=dtype)

        self.shape = shape
        self.group: Group | None = None
        queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        fused = queries + 2 * keys
        self.attention_norm = weight(shape.width)
        heads = large(Product.QKV, fused, shape.width)
        self.qkv, self.qkv_scale = heads.values, heads.scale
        self.qkv_bias = weight(fused) if shape.qkv_bias else None
        self.to_heads = replace(heads, bias=self.qkv_bias, parts=(queries, keys, keys))
        self.to_queries, self.to_keys, self.to_values = self.to_heads.split()
        self.query_norm = weight(shape.head_dim) if shape.qk_norm else None
        self.key_norm = weight(shape.head_dim) if shape.qk_norm else None
        self.from_heads = large(Product.OUT, shape.width, queries)
        self.out, self.out_scale = self.from_heads.values, self.from_heads.scale
        self.feed_norm = weight(shape.width)
        self.dense: Swiglu | None = None
        self.mixture: Mixture | None = None
        self.gate_up = self.down = self.gate_up_scale = self.down_scale = None
        self.router = self.router_bias = None
        self.expert_gate_up = self.expert_down = None
        self.expert_gate_up_scale = self.expert_down_scale = None
        experts = shape.experts if sparse else None
        inner = shape.inner if experts is None else experts.shared
        if inner:
            self.dense = Swiglu(
                large(Product.GATE_UP, 2 * inner, shape.width),
                large(Product.DOWN, shape.width, inner),
            )
            self.gate_up, self.gate_up_scale = self.dense.gate_up.values, self.dense.gate_up.scale
            self.down, self.down_scale = self.dense.down.values, self.dense.down.scale
        if experts is not None:
            self.router = weight(experts.count, shape.width)
            if experts.router is Router.GROUPED_SIGMOID:
                wide = torch.float64 if dtype == torch.float64 else torch.float32
                self.router_bias = allocated(experts.count, device=device, dtype=wide)
            gate_up = large(Product.EXPERTS, experts.here, 2 * experts.inner, shape.width)
            down = large(Product.EXPERTS, experts.here, shape.width, experts.inner)
            self.expert_gate_up, self.expert_gate_up_scale = gate_up.values, gate_up.scale
            self.expert_down, self.expert_down_scale = down.values, down.scale
            self.mixture = Mixture(
                experts, Linear(self.router), self.router_bias, Swiglu(gate_up, down)
            )
        for name, linear in self.large().items():
            if linear.blocks is not None:
                setattr(self, f"{name}_packed", linear.blocks)

    def normed(self, hidden: Tensor) -> Tensor:
        """[N, d] -> [N, d], the input of the attention projections."""
        return rms_norm(hidden, self.attention_norm, self.shape.norm_epsilon)

    def project(self, normed: Tensor, angles: Angles) -> Projected:
        """[N, d] -> queries, keys and values, rotated; in one product, or from rows that are rounded once."""
        shape = self.shape
        if self.to_heads.blocks is not None:
            rows = self.to_heads.rounded(normed)
            queries, keys, values = (
                self._split(part.of_rounded(rows, normed.dtype))
                for part in (self.to_queries, self.to_keys, self.to_values)
            )
            return Projected(
                rotate(self._head_norm(queries, self.query_norm), angles),
                rotate(self._head_norm(keys, self.key_norm), angles),
                values,
            )
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

    def large(self) -> dict[str, Linear]:
        """Its large products, by the name of the parameter that holds the weights."""
        products = {"qkv": self.to_heads, "out": self.from_heads}
        if self.dense is not None:
            products |= {"gate_up": self.dense.gate_up, "down": self.dense.down}
        if self.mixture is not None:
            stack = self.mixture.stack
            products |= {"expert_gate_up": stack.gate_up, "expert_down": stack.down}
        return products

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
        """`scheme` says how large matrices are kept; those kept whole are packed when they are filled."""
        super().__init__()
        weight = partial(allocated, device=device, dtype=dtype)
        self.shape = shape
        self.scheme = scheme
        self.embedding = weight(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(
            Layer(
                shape,
                sparse=i >= shape.dense_layers,
                last=i == shape.layers - 1,
                scheme=scheme,
                device=device,
                dtype=dtype,
            )
            for i in range(shape.layers)
        )
        self.norm = weight(shape.width)
        kept = scheme.keeps(Product.HEAD)
        head = (
            Linear(self.embedding)
            if shape.tied and kept is Kept.PLAIN
            else Linear.empty(shape.vocabulary, shape.width, kept=kept, device=device, dtype=dtype)
        )
        self.head, self.head_scale, self.head_packed = head.values, head.scale, head.blocks
        self.to_words = None if head.blocks is None else head
        """The head where it is kept whole; a plain one is multiplied with as it is."""
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

    def large(self) -> dict[str, Linear]:
        """The large products that are kept in eight bits, by the name of the parameter."""
        products = {
            f"layers.{index}.{name}": linear
            for index in range(self.shape.layers)
            for name, linear in self.layer(index).large().items()
            if linear.scale is not None
        }
        return products if self.to_words is None else {**products, "head": self.to_words}

    def scales(self) -> dict[str, Tensor]:
        """The scales of parameters that hold whole numbers, by the name of the parameter."""
        return {
            name: linear.scale for name, linear in self.large().items() if linear.scale is not None
        }

    def pack(self, *names: str) -> None:
        """Give these matrices, kept whole and filled, to the operator that wants them in its own order."""
        large = self.large()
        for name in names:
            large[name].pack()
            module, _, own = name.rpartition(".")
            self.get_submodule(module).register_parameter(own, None)

    def borrow(self, network: Transformer) -> None:
        """Use the weights of a network with at least as many layers."""
        for name in ("embedding", "norm", "head", "to_words"):
            setattr(self, name, getattr(network, name))
        self.layers = network.layers[: self.shape.layers]
        self.scheme = network.scheme

    def embed(self, tokens: Tensor) -> Tensor:
        """Long[N] -> [N, d]"""
        if self.one_shard is not None:
            return self.one_shard.embed(tokens, self.embedding)
        return F.embedding(tokens, self.embedding)

    def score(self, hidden: Tensor) -> Tensor:
        """[N, d] -> logits [N, V]"""
        if self.one_shard is not None:
            self.one_shard.note(hidden)
        words = Linear(self.head) if self.to_words is None else self.to_words
        return words(rms_norm(hidden, self.norm, self.shape.norm_epsilon))

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


@torch.no_grad()
def kept_by(plain: Transformer, scheme: Scheme, *, packed: bool) -> Transformer:
    """A network with the weights of a plain one, kept by a scheme; embedding and plain head are shared."""
    network = Transformer(plain.shape, scheme=scheme, device=plain.device, dtype=plain.dtype)
    theirs = dict(plain.named_parameters(remove_duplicate=False))
    large = network.large()
    network.embedding = plain.embedding
    if network.to_words is None:
        network.head = plain.head
    for name, parameter in list(network.named_parameters()):
        if name not in large and name in theirs:
            parameter.copy_(theirs[name])
    for name, linear in large.items():
        linear.fill(theirs[name])
        if packed:
            network.pack(name)
    return network


def rms_norm(hidden: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Root-mean-square norm: statistics in at least float32, then the weight in the model's dtype."""
    if hidden.dtype in (torch.float32, torch.float64):
        return F.rms_norm(hidden, weight.shape, weight, epsilon)
    wide = hidden.float()
    return F.rms_norm(wide, weight.shape, eps=epsilon).to(hidden.dtype) * weight


def rotate(heads: Tensor, angles: Angles) -> Tensor:
    """Half-rotate RoPE: dimension j < R/2 is paired with j + R/2, those from R on pass.

    [N, heads, D] -> the same.  Passes write both halves of many numbers in place, which is faster; what is
    differentiated or compiled is spelled out, with the same bits.
    """
    if (
        heads.numel() > FEW
        and not torch.compiler.is_compiling()
        and torch.is_inference_mode_enabled()
    ):
        return rotate_halves(heads, angles)
    rotated = angles.cosine.shape[-1]
    wide = heads[..., :rotated].to(angles.cosine.dtype)
    paired = wide.roll(rotated // 2, -1)
    turned = (wide * angles.cosine + paired * angles.sine).to(heads.dtype)
    return turned if rotated == heads.shape[-1] else torch.cat((turned, heads[..., rotated:]), -1)


def rotate_halves(heads: Tensor, angles: Angles) -> Tensor:
    """The same, half by half, into one tensor."""
    rotated = angles.cosine.shape[-1]
    half = rotated // 2
    cosine, sine = angles.cosine[..., :half], angles.sine[..., half:]
    wide = heads.to(cosine.dtype)
    low, high = wide[..., :half], wide[..., half:rotated]
    turned = torch.empty_like(wide, memory_format=torch.contiguous_format)
    other = turned.new_empty(low.shape)
    torch.mul(low, cosine, out=turned[..., :half]).sub_(torch.mul(high, sine, out=other))
    torch.mul(high, cosine, out=turned[..., half:rotated]).add_(torch.mul(low, sine, out=other))
    if rotated < heads.shape[-1]:
        turned[..., rotated:] = wide[..., rotated:]
    return turned.to(heads.dtype)
