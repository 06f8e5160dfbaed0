"""What a pass returns, and the one reduction over the vocabulary that every decoder reads.

Axes: B rows, A answer columns (response, then scratch), n columns read in one row, V vocabulary.

Confidence is float64: 1 / (1 + s), s the sum of exp(z_v - z_max) over the other tokens.  In float32
it would saturate at 1.0 and ties, not the rule, would pick the tokens to take back.  s itself is summed in
the logits' own precision (at least float32), a few rows at a time: no wide copy of the logits exists, and
nothing is sorted over the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from archer import noise
from archer.arrays import Flags, Ints, Reals
from archer.transfer import to_host

CHUNK = 1 << 22
"""Logits looked at together: bounds the temporary of the reduction."""
HOST_CHUNK = 1 << 18
"""The same on a CPU, where it should stay in a core's cache."""


@dataclass(frozen=True)
class RowLogits:
    """The logits of one row: `values[i]` [V] scores the token at answer column `columns[i]`."""

    values: Tensor
    """[n, V]"""
    places: tuple[int, ...]
    """The columns, ascending, counted from the start of the response."""

    @cached_property
    def columns(self) -> Tensor:
        """Long[n]: the same columns on the device."""
        return torch.tensor(self.places, dtype=torch.long, device=self.values.device)


@dataclass(frozen=True)
class Answers:
    """For each answer column the token a decoder would place, and how sure the model is of it."""

    tokens: Tensor
    """Long[B, A]: never the mask id; 0 where nothing is known."""
    confidence: Tensor
    """Float64[B, A]: softmax probability of that token over the whole vocabulary; NaN where unknown."""


@dataclass(frozen=True)
class Candidates:
    """The same on the host, where decoders decide."""

    tokens: Ints
    """[B, A]"""
    confidence: Reals
    """[B, A]"""


@dataclass(frozen=True)
class Peaks:
    """Maximum and mass of each known distribution: probability of v = exp(z_v - top) / (1 + rest)."""

    tokens: Tensor  # Long[n], best token other than the mask id, lowest id among equals
    best: Tensor  # Float64[n], its logit
    top: Tensor  # Float64[n], the largest logit, the mask id's included
    rest: Tensor  # Float64[n], sum of exp(z_v - top) over all tokens but the one on top

    def probability(self, logit: Tensor) -> Tensor:
        """Float64[n] -> Float64[n]"""
        return (logit.double() - self.top).exp() / (1.0 + self.rest)


class Logits:
    """Logits of the columns that were read, row by row; the only thing a decoder learns from the model.

    Everything is worked out where the logits are; `read` brings what a decoder wants to the host.
    """

    def __init__(self, rows: Sequence[RowLogits], answers: int, mask: int) -> None:
        self.rows = tuple(rows)
        self.answers = answers
        self.mask = mask
        self._source = self
        self._sound: Flags | None = None

    @classmethod
    def dense(cls, values: Tensor, mask: int) -> Logits:
        """From [B, A, V] with every column known: hand-made logits, or a shadow pass."""
        answers = values.shape[1]
        return cls([RowLogits(row, tuple(range(answers))) for row in values], answers, mask)

    def changed(self, rows: Sequence[RowLogits]) -> Logits:
        """Other logits made of these; whether they are sound is still said of these."""
        made = Logits(rows, self.answers, self.mask)
        made._source = self._source
        return made

    def read(self, best: Answers, *more: Tensor) -> tuple[Candidates, tuple[Reals, ...]]:
        """Answers and any other Float64[B, A], brought to the host in one transfer."""
        tokens, sure, sound, *others = to_host(
            best.tokens, best.confidence, self._source.finite, *more
        )
        self._source._sound = sound
        return Candidates(tokens, sure), tuple(others)

    @property
    def sound(self) -> Flags:
        """[B]: `finite` on the host; comes with what was read."""
        if self._source._sound is None:
            (self._source._sound,) = to_host(self._source.finite)
        return self._source._sound

    def select(self, rows: Sequence[int]) -> Logits:
        return Logits([self.rows[row] for row in rows], self.answers, self.mask)

    @cached_property
    def peaks(self) -> tuple[Peaks, ...]:
        """One reduction per row, made once however many ask."""
        return tuple(_peaks(row.values, self.mask) for row in self.rows)

    @cached_property
    def finite(self) -> Tensor:
        """Bool[B]: no NaN and no +inf among the row's logits, and not everything -inf."""
        return torch.stack([(p.top + p.rest + p.best).isfinite().all() for p in self.peaks])

    @cached_property
    def greedy(self) -> Answers:
        """The most likely token of each column and its probability."""
        pairs = [(p.tokens, p.probability(p.best)) for p in self.peaks]
        return self._answers(pairs)

    def sampled(self, temperature: float, keys: Sequence[int], updates: Sequence[int]) -> Answers:
        """Tokens drawn at `temperature`, with their untempered probability; greedy at 0, drawing nothing."""
        if temperature == 0:
            return self.greedy
        pairs = []
        for row, peaks, key, update in zip(self.rows, self.peaks, keys, updates, strict=True):
            generator = noise.stream(key, update, row.values.device)
            tokens = _gumbel_argmax(row.values, temperature, generator, self.mask)
            pairs.append((tokens, peaks.probability(_logit_of(row.values, tokens))))
        return self._answers(pairs)

    def probability(self, tokens: Ints | Tensor) -> Tensor:
        """[B, A] -> Float64[B, A]: probability of the given token at each column; NaN where unknown."""
        placed = torch.as_tensor(tokens, device=self.rows[0].values.device)
        return self._spread(
            [
                p.probability(_logit_of(r.values, placed[index, r.columns]))
                for index, (r, p) in enumerate(self._pairs())
            ]
        )

    @cached_property
    def entropy(self) -> Tensor:
        """Float64[B, A]: entropy of each distribution in nats; NaN where unknown."""
        return self._spread([_entropy(r.values, p) for r, p in self._pairs()])

    @cached_property
    def margin(self) -> Tensor:
        """Float64[B, A]: lead of the best candidate over the next, as probabilities; NaN where unknown."""
        return self._spread(
            [
                p.probability(p.best) - p.probability(_second(r.values, p, self.mask))
                for r, p in self._pairs()
            ]
        )

    def _pairs(self) -> Iterator[tuple[RowLogits, Peaks]]:
        return zip(self.rows, self.peaks, strict=True)

    def _spread(self, parts: Sequence[Tensor]) -> Tensor:
        """Float64[n] per row -> Float64[B, A]"""
        return self._placed(parts, torch.nan)

    def _answers(self, pairs: Sequence[tuple[Tensor, Tensor]]) -> Answers:
        tokens, sure = ([pair[part] for pair in pairs] for part in (0, 1))
        return Answers(self._placed(tokens, 0), self._spread(sure))

    def _placed(self, parts: Sequence[Tensor], fill: float) -> Tensor:
        """[n] per row -> [B, A], `fill` where nothing is known."""
        if all(len(part) == self.answers for part in parts):
            return torch.stack(list(parts))
        placed = parts[0].new_full((len(parts), self.answers), fill)
        for index, (row, part) in enumerate(zip(self.rows, parts, strict=True)):
            placed[index, row.columns] = part
        return placed


def _peaks(values: Tensor, mask: int) -> Peaks:
    """[n, V] -> Peaks"""
    best, tokens = _best(values, mask)
    masked = values[:, mask]
    top = torch.maximum(best, masked)
    summit = tokens.masked_fill(masked > best, mask)
    rest = torch.empty_like(top, dtype=torch.float64)
    for rows in _chunks(values):
        tail = _wide(values[rows]) - _wide(top[rows])[:, None]
        tail.exp_().scatter_(1, summit[rows][:, None], 0.0)
        rest[rows] = tail.sum(dim=1)
    return Peaks(tokens, best.double(), top.double(), rest)


def _entropy(values: Tensor, peaks: Peaks) -> Tensor:
    """[n, V] -> Float64[n]: log(1 + rest) - sum of p_v (z_v - top)."""
    spread = torch.empty_like(peaks.top)
    for rows in _chunks(values):
        wide = _wide(values[rows])
        below = (wide - peaks.top[rows][:, None].to(wide.dtype)).clamp(min=-1e4)
        weighted = below.exp().mul_(below).sum(dim=1, dtype=torch.float64)
        mass = 1.0 + peaks.rest[rows]
        spread[rows] = mass.log() - weighted / mass
    return spread


def _second(values: Tensor, peaks: Peaks, mask: int) -> Tensor:
    """[n, V] -> [n]: the largest logit but the best candidate's and the mask id's."""
    second = torch.empty_like(values[:, 0])
    for rows in _chunks(values):
        others = values[rows].clone()
        others[:, mask] = -torch.inf
        second[rows] = others.scatter_(1, peaks.tokens[rows][:, None], -torch.inf).max(dim=1).values
    return second


def _best(values: Tensor, mask: int) -> tuple[Tensor, Tensor]:
    """[n, V] -> [n], Long[n]: largest logit and its lowest id over V without the mask id."""
    if values.device.type == "cpu" and values.dtype in (torch.float32, torch.float64):
        return _best_at_hand(values, mask)
    return _best_anywhere(values, mask)


def _best_at_hand(values: Tensor, mask: int) -> tuple[Tensor, Tensor]:
    """The same for logits that the host holds: numpy's argmax is several times as fast as torch's."""
    numbers = np.from_dlpack(values.detach())
    found = numbers.argmax(axis=1)
    blocked = np.flatnonzero(found == mask)
    if len(blocked):
        others = numbers[blocked]
        others[:, mask] = -np.inf
        found[blocked] = others.argmax(axis=1)
    tokens = torch.from_numpy(found)
    return _logit_of(values, tokens), tokens


def _best_anywhere(values: Tensor, mask: int) -> tuple[Tensor, Tensor]:
    """Without looking at data: the best on either side of the mask id, two views and no copy."""
    sides = []
    if mask > 0:
        sides.append(values[:, :mask].max(dim=1))
    if mask + 1 < values.shape[1]:
        after = values[:, mask + 1 :].max(dim=1)
        sides.append(torch.return_types.max((after.values, after.indices + mask + 1)))
    first, last = sides[0], sides[-1]
    ahead = first.values >= last.values
    best = torch.where(ahead, first.values, last.values)
    return best, torch.where(ahead, first.indices, last.indices)


def _gumbel_argmax(
    values: Tensor, temperature: float, generator: torch.Generator, mask: int
) -> Tensor:
    """[n, V] -> Long[n]: argmax of z + T * Gumbel, which samples softmax(z / T) without overflow."""
    tokens = torch.empty(values.shape[0], dtype=torch.long, device=values.device)
    for rows in _chunks(values):
        drawn = noise.gumbel(generator, *values[rows].shape)
        tokens[rows] = _best(values[rows].double() + temperature * drawn, mask)[1]
    return tokens


def _logit_of(values: Tensor, tokens: Tensor) -> Tensor:
    """[n, V], Long[n] -> [n]"""
    return values.gather(1, tokens[:, None]).squeeze(1)


def _wide(values: Tensor) -> Tensor:
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


def _chunks(values: Tensor) -> Iterator[slice]:
    together = HOST_CHUNK if values.device.type == "cpu" else CHUNK
    rows = max(1, together // values.shape[1])
    for start in range(0, values.shape[0], rows):
        yield slice(start, start + rows)
