"""One product with weights, however these are kept: as they are, or in eight bits, of two kinds.

Axes: N token rows, n inputs, m outputs (channels) of a product, g scales of a channel, E matrices of a stack,
d width, f inner width.

In eight bits a weight is q * scale with a whole number q from -127 to 127, which is off by at most half a
scale.

Kept *small*, a few inputs of a channel share a scale, in bfloat16; the numbers are chosen for the scale as it
is kept.  q * scale has up to 15 bits, which float32 and float64 hold; `OFF` says how far a weight can be off
in the others.  A product is off by at most the sum of that times the input's magnitude, beside the rounding
of the product itself.  This saves memory, not time.

Kept *whole*, a channel has one scale, in float32, and the rows are rounded as well, so that the product is
made of whole numbers; see `rounded`.  This saves both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from archer.network.rounded import (
    LARGEST,
    MOST,
    POINTED,
    Rounded,
    by_packed,
    by_plain,
    by_scaled,
    numbers_on,
    packed,
)
from archer.network.shape import Kept

TOGETHER = 32
"""Inputs of a channel that share a scale."""
SCALES, WHOLE_SCALES = torch.bfloat16, torch.float32
"""What the scales are kept in: of a matrix that is kept small, and of one that is kept whole."""
TAKEN = 4096
"""Channels that are rounded at a time."""
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
    """[m, n], or [E, m, n]; Int8 (on some GPUs Float8) where there are scales.  Once packed it has a shape
    and no numbers."""
    scale: Tensor | None = None
    """[m, g], or [E, m, g]"""
    bias: Tensor | None = None
    """[m]"""
    at: slice | int | None = None
    """Which rows, or which matrix of a stack; None means all."""
    blocks: nn.ParameterList | None = None
    """Where a matrix is kept whole: its blocks of channels, or the matrices of a stack, once packed."""
    parts: tuple[int, ...] = ()
    """Channels of each block, where a matrix has several."""
    block: int = 0
    """The block that `at` is."""

    @classmethod
    def empty(
        cls,
        *size: int,
        kept: Kept,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> Linear:
        """Parameters to be filled."""
        fresh = partial(allocated, device=device)
        if kept is Kept.PLAIN:
            return cls(fresh(*size, dtype=dtype))
        if kept is Kept.SMALL:
            scale = fresh(*size[:-1], scales(size[-1]), dtype=SCALES)
            return cls(fresh(*size, dtype=torch.int8), scale)
        scale = fresh(*size[:-1], 1, dtype=WHOLE_SCALES)
        return cls(fresh(*size, dtype=numbers_on(device)), scale, blocks=nn.ParameterList())

    def __call__(self, hidden: Tensor) -> Tensor:
        """[N, n] -> [N, m]"""
        if self.blocks is not None:
            return self.of_rounded(self.rounded(hidden), hidden.dtype)
        values, scale = self._own(self.values), self.scale
        if scale is not None:
            values = _multiplied_out(values, self._own(scale), hidden.dtype)
        return F.linear(hidden, values, None if self.bias is None else self._own(self.bias))

    def rounded(self, hidden: Tensor) -> Rounded:
        """[N, n] -> rows as a matrix that is kept whole takes them."""
        return Rounded.of(hidden, self.values.dtype)

    def of_rounded(self, rows: Rounded, dtype: torch.dtype) -> Tensor:
        """The same from rows that are rounded already; the matrix must be kept whole."""
        assert self.scale is not None
        scale = self._own(self.scale).squeeze(-1)
        if self.blocks:
            summed = by_packed(rows.numbers, self.blocks[self.block], scale)
        else:
            product = by_scaled if self.values.dtype == POINTED else by_plain
            summed = product(rows.numbers, self._own(self.values), scale)
        answer = summed.to(rows.scale.dtype).mul_(rows.scale)
        if self.bias is not None:
            answer.add_(self._own(self.bias))
        return answer.to(dtype)

    @torch.no_grad()
    def fill(self, weights: Tensor) -> None:
        """Take over [m, n] or [E, m, n], rounded where there are scales; some channels at a time."""
        channels, scale = weights.flatten(0, -2), self.scale
        values = self.values.flatten(0, -2)
        for first in range(0, len(channels), TAKEN):
            own = slice(first, first + TAKEN)
            if scale is None:
                values[own].copy_(channels[own])
                continue
            rows = scale.flatten(0, -2)[own]
            numbers, scales = quantised(
                wide(channels[own]), rows.shape[-1], rows.dtype, values.dtype
            )
            values[own].copy_(numbers)
            rows.copy_(scales)

    def pack(self) -> None:
        """Put the numbers of a matrix that is kept whole into the operator's own order, and let them go."""
        assert self.blocks is not None
        stack = self.values.unbind() if self.values.dim() == 3 else (self.values,)
        for part in self.values.split(self.parts) if self.parts else stack:
            self.blocks.append(nn.Parameter(packed(part), requires_grad=False))
        self.values.untyped_storage().resize_(0)

    def split(self) -> list[Linear]:
        """The products with each of its parts."""
        ends = [sum(self.parts[: at + 1]) for at in range(len(self.parts))]
        return [
            replace(self, at=slice(end - size, end), block=at)
            for at, (size, end) in enumerate(zip(self.parts, ends, strict=True))
        ]

    def expert(self, index: int) -> Linear:
        """The product with one matrix of a stack."""
        return replace(self, at=index, block=index)

    def _own(self, whole: Tensor) -> Tensor:
        return whole if self.at is None else whole[self.at]


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
        return self.down(F.silu(gate).mul_(up))

    def expert(self, index: int) -> Swiglu:
        """One of a stack."""
        return Swiglu(self.gate_up.expert(index), self.down.expert(index))


def allocated(*size: int, device: torch.device | None, dtype: torch.dtype | None) -> nn.Parameter:
    return nn.Parameter(torch.empty(size, device=device, dtype=dtype), requires_grad=False)


def scales(inputs: int) -> int:
    """Scales of a channel that is kept small; fewer inputs share one where they do not divide evenly."""
    return inputs // math.gcd(inputs, TOGETHER)


def quantised(
    rows: Tensor, count: int = 1, dtype: torch.dtype = SCALES, kind: torch.dtype = torch.int8
) -> tuple[Tensor, Tensor]:
    """[m, n] -> numbers of a kind, [m, n], and `count` scales a channel [m, g]; zeros have the scale 1."""
    parts = rows.unflatten(-1, (count, -1))
    scale = (parts.abs().amax(dim=-1) / MOST[kind]).to(dtype)
    scale = scale.masked_fill(scale == 0, 1.0)
    numbers = parts / scale[..., None]
    return (numbers.round_() if kind == torch.int8 else numbers).flatten(-2).to(kind), scale


def scales_of(scale: Tensor, inputs: int, columns: slice, count: int) -> Tensor:
    """[m, g] of channels with `inputs` inputs -> [m, count]: what some of their columns were made with."""
    each = (columns.stop - columns.start) // count
    starts = torch.arange(columns.start, columns.stop, each)
    return scale[:, starts // (inputs // scale.shape[-1])]


def largest(scale: Tensor, dtype: torch.dtype, kind: torch.dtype = torch.int8) -> Tensor:
    """[m, g]: the largest weights that come of these scales, as they will be multiplied out."""
    return (scale.double() * MOST[kind]).to(dtype)


def _multiplied_out(values: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """Int8[m, n], [m, g] -> [m, n]"""
    parts: Tensor = values.to(dtype).unflatten(-1, (scale.shape[-1], -1))
    return parts.mul_(scale[..., None]).flatten(-2)


def wide(values: Tensor) -> Tensor:
    """The same in at least float32."""
    return values if values.dtype in (torch.float32, torch.float64) else values.float()
