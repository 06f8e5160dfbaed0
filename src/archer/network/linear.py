"""Weights in eight bits: a scale for every few inputs of an output channel, symmetric around zero.

Axes: N token rows, n inputs, m outputs (channels) of a product, g scales of a channel.

A weight is q * scale with a whole number q from -127 to 127, which is off by at most half a scale.  Scales
are kept in bfloat16; the numbers are chosen for the scale as it is kept.  q * scale has up to 15 bits, which
float32 and float64 hold; `OFF` says how far a weight can be off in the others.  A product is off by at most
the sum of that times the input's magnitude, beside the rounding of the product itself.
This saves memory, not time.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

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


def scales(inputs: int) -> int:
    """Scales of a channel with so many inputs; fewer share one where they do not divide evenly."""
    return inputs // math.gcd(inputs, TOGETHER)


def quantised(rows: Tensor, count: int = 1) -> tuple[Tensor, Tensor]:
    """[m, n] -> whole numbers in Int8[m, n] and `count` scales a channel [m, g]; zeros have the scale 1."""
    parts = rows.unflatten(-1, (count, -1))
    scale = (parts.abs().amax(dim=-1) / LARGEST).to(SCALES)
    scale = scale.masked_fill(scale == 0, 1.0)
    return (parts / scale[..., None]).round_().flatten(-2).char(), scale


def product(hidden: Tensor, weight: Tensor, scale: Tensor | None) -> Tensor:
    """[N, n] -> [N, m] with a weight [m, n], which is Int8 where it has scales [m, g]."""
    return F.linear(hidden, weight if scale is None else _plain(weight, scale, hidden.dtype))


def _plain(weight: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """Int8[m, n], [m, g] -> [m, n]"""
    parts: Tensor = weight.to(dtype).unflatten(-1, (scale.shape[-1], -1))
    return parts.mul_(scale[..., None]).flatten(-2)


def wide(values: Tensor) -> Tensor:
    """The same in at least float32."""
    return values if values.dtype in (torch.float32, torch.float64) else values.float()
