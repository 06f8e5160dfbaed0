"""The one reduction over the vocabulary: where each distribution is highest, and what the rest of it weighs.

Axes: n columns read in one row, V vocabulary.

The mass of the other tokens is summed in the logits' own precision (at least float32), a few rows at a time:
no wide copy of the logits exists, and nothing is sorted over the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from archer.network.linear import wide
from archer.passes import noise
from archer.passes.noise import has_float64

CHUNK = 1 << 22
"""Logits looked at together: bounds the temporary of the reduction."""
HOST_CHUNK = 1 << 18
"""The same on a CPU, where it should stay in a core's cache."""
FAINTEST = {kind: math.log(torch.finfo(kind).tiny) + 1.0 for kind in (torch.float32, torch.float64)}
"""The lowest logarithm whose exponential has all of its digits."""


def exact(values: Tensor) -> Tensor:
    """The same in float64, on the host where the device has none."""
    return values.double() if has_float64(values.device.type) else values.cpu().double()


@dataclass(frozen=True)
class Peaks:
    """Maximum and mass of each known distribution: probability of v = exp(z_v - top) / (1 + rest)."""

    tokens: Tensor  # Long[n], best token other than the mask id, lowest id among equals
    best: Tensor  # Float[n], its logit
    top: Tensor  # Float[n], the largest logit, the mask id's included
    rest: Tensor  # Float[n], sum of exp(z_v - top) over all tokens but the one on top

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.tokens, self.best, self.top, self.rest

    def __getitem__(self, columns: slice) -> Peaks:
        """Of some of the columns."""
        return Peaks(*(tensor[columns] for tensor in self.tensors))

    def probability(self, logit: Tensor) -> Tensor:
        """Float[n] -> Float64[n]"""
        return (exact(logit) - exact(self.top)).exp() / (1.0 + exact(self.rest))

    def log_probability(self, logit: Tensor) -> Tensor:
        """Float[n] -> Float64[n]"""
        return exact(logit) - exact(self.top) - exact(self.rest).log1p()


def peaks_of(values: Tensor, mask: int | None) -> Peaks:
    """[n, V] -> Peaks; without a mask id where it is not among these tokens."""
    tokens, best, summit, top = _summits(values, mask)
    chunks = list(_chunks(values))
    if len(chunks) == 1:
        return Peaks(tokens, best, top, _rest(values, top, summit))
    rest = torch.empty_like(top)
    for rows in chunks:
        rest[rows] = _rest(values[rows], top[rows], summit[rows])
    return Peaks(tokens, best, top, rest)


def _rest(values: Tensor, top: Tensor, summit: Tensor) -> Tensor:
    """[n, V], [n], Long[n] -> [n]: sum of exp(z_v - top) over all tokens but the summit."""
    tail = _below(values, top).exp_()
    return tail.scatter_(1, summit.unsqueeze(1), 0.0).sum(dim=1)


def _below(values: Tensor, top: Tensor) -> Tensor:
    """[n, V], [n] -> [n, V]: z_v - top, no lower than where exponentials stop being ordinary numbers.

    Below that a processor takes twenty times as long for each, and they weigh nothing beside 1.
    """
    below = wide(values) - top.unsqueeze(1)
    return below.clamp_(min=FAINTEST[below.dtype])


def entropy_of(values: Tensor, peaks: Peaks) -> Tensor:
    """[n, V] -> Float64[n]: log(1 + rest) - sum of p_v (z_v - top)."""
    return entropy_from(weighted_below(values, peaks.top), peaks)


def entropy_from(weighted: Tensor, peaks: Peaks) -> Tensor:
    """The same from the sums of exp(z_v - top) (z_v - top), Float64[n]."""
    mass = 1.0 + exact(peaks.rest)
    return mass.log() - weighted / mass


def weighted_below(values: Tensor, top: Tensor) -> Tensor:
    """[n, V], [n] -> Float64[n]: sum of exp(z_v - top) (z_v - top)."""
    kind = torch.float64 if has_float64(values.device.type) else torch.float32
    weighted = torch.empty_like(top, dtype=kind)
    for rows in _chunks(values):
        below = _below(values[rows], top[rows])
        weighted[rows] = below.exp().mul_(below).sum(dim=1, dtype=kind)
    return exact(weighted)


def second_best(values: Tensor, tokens: Tensor, mask: int | None) -> Tensor:
    """[n, V], Long[n] -> [n]: the largest logit but the mask's and these tokens', if they are in V."""
    second = torch.empty_like(values[:, 0])
    for rows in _chunks(values):
        others = F.pad(values[rows], (0, 1), value=-torch.inf)
        if mask is not None:
            others[:, mask] = -torch.inf
        away = (tokens[rows] < 0) | (tokens[rows] > values.shape[1])
        ruled_out = tokens[rows].masked_fill(away, values.shape[1])
        second[rows] = others.scatter_(1, ruled_out[:, None], -torch.inf).max(dim=1).values
    return second


class Summits(NamedTuple):
    """Where each distribution is highest, [n] each; logits are at least float32."""

    tokens: Tensor  # the best token other than the mask id, lowest id among equals
    best: Tensor  # its logit
    summit: Tensor  # the token on top: the mask id where its logit is larger
    top: Tensor  # its logit


def _summits(values: Tensor, mask: int | None) -> Summits:
    """[n, V] -> Summits"""
    if values.device.type == "cpu" and values.dtype in (torch.float32, torch.float64):
        return _summits_at_hand(values, mask)
    return _summits_anywhere(values, mask)


def _summits_at_hand(values: Tensor, mask: int | None) -> Summits:
    """The same for logits that the host holds: numpy's argmax is several times as fast as torch's."""
    numbers = values.detach().numpy()
    each = np.arange(len(numbers))
    summit = numbers.argmax(axis=1)
    top = numbers[each, summit]
    if mask is not None and (summit == mask).any():
        blocked = np.flatnonzero(summit == mask)
        others = numbers[blocked]
        others[:, mask] = -np.inf
        tokens = summit.copy()
        tokens[blocked] = others.argmax(axis=1)
        best = numbers[each, tokens]
        summit = np.where(top > best, summit, tokens)
        return Summits(*map(torch.from_numpy, (tokens, best, summit, top)))
    highest = torch.from_numpy(summit), torch.from_numpy(top)
    return Summits(*highest, *highest)


def _summits_anywhere(values: Tensor, mask: int | None) -> Summits:
    """Without looking at data: the best on either side of the mask id, two views and no copy."""
    if mask is None:
        highest = values.max(dim=1)
        peak = highest.indices, wide(highest.values)
        return Summits(*peak, *peak)
    sides = []
    if mask > 0:
        sides.append(values[:, :mask].max(dim=1))
    if mask + 1 < values.shape[1]:
        after = values[:, mask + 1 :].max(dim=1)
        sides.append(torch.return_types.max((after.values, after.indices + mask + 1)))
    first, last = sides[0], sides[-1]
    ahead = first.values >= last.values
    best = torch.where(ahead, first.values, last.values)
    tokens = torch.where(ahead, first.indices, last.indices)
    masked = values[:, mask]
    summit = tokens.masked_fill(masked > best, mask)
    return Summits(tokens, wide(best), summit, wide(torch.maximum(best, masked)))


def gumbel_argmax(
    values: Tensor, temperature: float, generator: torch.Generator, mask: int
) -> Tensor:
    """[n, V] -> Long[n]: argmax of z + T * Gumbel, which samples softmax(z / T) without overflow."""
    best = gumbel_best(values, temperature, generator, mask, slice(0, values.shape[1]))
    return best.tokens.to(values.device)


def gumbel_best(
    values: Tensor,
    temperature: float,
    generator: torch.Generator,
    mask: int | None,
    drawn: slice,
    vocabulary: int | None = None,
) -> Summits:
    """The same for the `drawn` columns of the whole vocabulary's noise, and how high each argmax is."""
    width = vocabulary or values.shape[1]
    bests = []
    for rows in _chunks(values, width):
        noisy = noise.gumbel(generator, values[rows].shape[0], width)[:, drawn]
        bests.append(_summits(exact(values[rows]) + temperature * noisy, mask))
    if not bests:
        bests.append(_summits_of_none(values))
    return Summits(*(torch.cat(parts) for parts in zip(*bests, strict=True)))


def _summits_of_none(values: Tensor) -> Summits:
    """Of no rows at all."""
    tokens, heights = values.new_empty(0, dtype=torch.long), exact(values.new_empty(0))
    return Summits(tokens, heights, tokens, heights)


def logit_of(values: Tensor, tokens: Tensor) -> Tensor:
    """[n, V], Long[n] -> [n], at least float32"""
    return wide(values.gather(1, tokens[:, None]).squeeze(1))


def _chunks(values: Tensor, width: int | None = None) -> Iterator[slice]:
    together = HOST_CHUNK if values.device.type == "cpu" else CHUNK
    rows = max(1, together // (width or values.shape[1]))
    for start in range(0, values.shape[0], rows):
        yield slice(start, start + rows)


def to_host(*tensors: Tensor) -> list[NDArray[Any]]:
    """Each tensor as an array, with one wait of the host; on a CPU its own memory, not to be written to."""
    away = [tensor for tensor in tensors if not tensor.is_cpu]
    fetched = iter(packed(*away) if away else ())
    return [tensor.numpy() if tensor.is_cpu else next(fetched) for tensor in tensors]


def packed(*tensors: Tensor) -> list[NDArray[Any]]:
    """The same in one transfer, through float64, which holds every id and every flag exactly.

    A device without it sends them one by one.
    """
    if not has_float64(tensors[0].device.type):
        return [tensor.cpu().numpy() for tensor in tensors]
    flat = torch.cat([tensor.flatten().double() for tensor in tensors]).numpy(force=True)
    ends = np.cumsum([tensor.numel() for tensor in tensors])[:-1]
    return [
        part.reshape(tensor.shape).astype(_TYPES[tensor.dtype])
        for tensor, part in zip(tensors, np.split(flat, ends), strict=True)
    ]


_TYPES: dict[torch.dtype, type[np.generic]] = {
    torch.int64: np.int64,
    torch.bool: np.bool_,
    torch.float32: np.float32,
    torch.float64: np.float64,
}
