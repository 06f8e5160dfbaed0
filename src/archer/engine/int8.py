"""Weights in eight bits: one scale per output channel, symmetric around zero.

Axes: N token rows, n inputs, m outputs (channels) of a product.

A channel's weights are q * scale with whole numbers q from -127 to 127, so each is off by at most half a
scale, and a product by at most half a scale times the sum of the inputs' magnitudes.  The numbers q are exact
in every floating type, so a product is made with them and its result is scaled.  This saves memory, not time.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

LARGEST = 127


def quantised(rows: Tensor) -> tuple[Tensor, Tensor]:
    """[m, n] -> whole numbers in Int8[m, n] and their scales [m]; a channel of zeros has the scale 1."""
    scale = rows.abs().amax(dim=-1) / LARGEST
    scale = scale.masked_fill(scale == 0, 1.0)
    return (rows / scale[:, None]).round_().char(), scale


def product(hidden: Tensor, weight: Tensor, scale: Tensor | None) -> Tensor:
    """[N, n] -> [N, m] with a weight [m, n], which is Int8 where it has scales [m]."""
    if scale is None:
        return F.linear(hidden, weight)
    return (F.linear(hidden, weight.to(hidden.dtype)) * scale).to(hidden.dtype)
