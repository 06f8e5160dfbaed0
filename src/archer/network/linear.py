"""One product with weights, however these are kept: as they are, or in eight bits.

Axes: N token rows, n inputs, m outputs (channels) of a product, g scales of a channel, E matrices of a stack,
d width, f inner width.

In eight bits a weight is q * scale with a whole number q from -127 to 127, which is off by at most half a
scale; a few inputs of a channel share one.  Scales are kept in bfloat16; the numbers are chosen for the scale
as it is kept.  q * scale has up to 15 bits, which float32 and float64 hold; `OFF` says how far a weight can
be off in the others.  A product is off by at most the sum of that times the input's magnitude, beside the
rounding of the product itself.  This saves memory, not time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from archer.network.shape import Scheme

LARGEST = 127
TOGETHER = 32
"""Inputs of a channel that share a scale."""
SCALES = torch.bfloat16
OFF = {
    torch.float64: 0.5,
    torch.float32: 0.5,
    torch.float16: 0.5 + LARGEST / 2**11,
    torch.bfloat16: 0.5 + LARGEST / 2**8,
}
"""How far a weight is off at most, in scales: half of one, and what q * scale loses in the network's dtype.

Below float16's normal numbers (6e-5) weights are also off by its smallest step, with eight bits or without.
"""


@dataclass(frozen=True, eq=False)
class Linear:
    """A matrix, or a stack, that token rows are multiplied with; it refers to parameters and owns none."""

    values: Tensor
    """[m, n], or [E, m, n]; Int8 where there are scales."""
    scale: Tensor | None = None
    """[m, g], or [E, m, g]"""
    bias: Tensor | None = None
    """[m]"""
    at: slice | int | None = None
    """Which rows, or which matrix of a stack; None means all."""

    @classmethod
    def empty(
        cls,
        *size: int,
        scheme: Scheme,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> Linear:
        """Parameters to be filled."""
        if scheme is Scheme.PLAIN:
            return cls(allocated(*size, device=device, dtype=dtype))
        return cls(
            allocated(*size, device=device, dtype=torch.int8),
            allocated(*size[:-1], scales(size[-1]), device=device, dtype=SCALES),
        )

    def __call__(self, hidden: Tensor) -> Tensor:
        """[N, n] -> [N, m]"""
        values, scale, bias = self.values, self.scale, self.bias
        if self.at is not None:
            values = values[self.at]
            scale = None if scale is None else scale[self.at]
            bias = None if bias is None else bias[self.at]
        if scale is not None:
            values = _multiplied_out(values, scale, hidden.dtype)
        return F.linear(hidden, values, bias)

    def rows(self, part: slice) -> Linear:
        """The product with some of the channels."""
        return replace(self, at=part)

    def expert(self, index: int) -> Linear:
        """The product with one matrix of a stack."""
        return replace(self, at=index)


@dataclass(frozen=True, eq=False)
class Swiglu:
    """A gated feed-forward, or a stack of them."""

    gate_up: Linear
    """[2 f, d], or [E, 2 f, d]"""
    down: Linear
    """[d, f], or [E, d, f]"""

    def __call__(self, normed: Tensor) -> Tensor:
        """[N, d] -> [N, d]"""
        gate, up = self.gate_up(normed).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)

    def expert(self, index: int) -> Swiglu:
        """One of a stack."""
        return Swiglu(self.gate_up.expert(index), self.down.expert(index))


def allocated(*size: int, device: torch.device | None, dtype: torch.dtype | None) -> nn.Parameter:
    return nn.Parameter(torch.empty(size, device=device, dtype=dtype), requires_grad=False)


def scales(inputs: int) -> int:
    """Scales of a channel with `inputs` inputs; fewer share one where they do not divide evenly."""
    return inputs // math.gcd(inputs, TOGETHER)


def quantised(rows: Tensor, count: int = 1) -> tuple[Tensor, Tensor]:
    """[m, n] -> whole numbers in Int8[m, n] and `count` scales a channel [m, g]; zeros have the scale 1."""
    parts = rows.unflatten(-1, (count, -1))
    scale = (parts.abs().amax(dim=-1) / LARGEST).to(SCALES)
    scale = scale.masked_fill(scale == 0, 1.0)
    return (parts / scale[..., None]).round_().flatten(-2).char(), scale


def scales_of(scale: Tensor, inputs: int, columns: slice, count: int) -> Tensor:
    """[m, g] of channels with `inputs` inputs -> [m, count]: what some of their columns were made with."""
    each = (columns.stop - columns.start) // count
    starts = torch.arange(columns.start, columns.stop, each)
    return scale[:, starts // (inputs // scale.shape[-1])]


def largest(scale: Tensor, dtype: torch.dtype) -> Tensor:
    """[m, g]: the largest weights that come of these scales, as they will be multiplied out."""
    return (scale.double() * LARGEST).to(dtype)


def _multiplied_out(values: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """Int8[m, n], [m, g] -> [m, n]"""
    parts: Tensor = values.to(dtype).unflatten(-1, (scale.shape[-1], -1))
    return parts.mul_(scale[..., None]).flatten(-2)


def wide(values: Tensor) -> Tensor:
    """The same in at least float32."""
    return values if values.dtype in (torch.float32, torch.float64) else values.float()
