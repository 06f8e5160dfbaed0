"""The logits of one row of a request, and the reductions over the vocabulary that can be asked of them.

Axes: n columns read in the row, V vocabulary, k tokens per column.

They are one tensor, or spread over the shards of a network; who asks does not see which.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor

from archer.passes import noise
from archer.passes.reduction import (
    Peaks,
    entropy_of,
    gumbel_argmax,
    logit_of,
    peaks_of,
    second_best,
)
from archer.passes.transfer import to_host


@dataclass(frozen=True)
class Reduced:
    """A reduction that the host has fetched."""

    peaks: Peaks
    fetched: tuple[NDArray[Any], ...]

    @classmethod
    def of(cls, peaks: Peaks) -> Reduced:
        """Of as many rows as there are, in one transfer for all of them."""
        return cls(peaks, tuple(to_host(*peaks.tensors)))

    def __getitem__(self, columns: slice) -> Reduced:
        """The same of some of the columns."""
        return Reduced(self.peaks[columns], tuple(array[columns] for array in self.fetched))


class SplitLogits(Protocol):
    """The logits of one row where each shard of a network has those of its own part of the vocabulary.

    Asking is a conversation between the shards, in which a few numbers per column are exchanged.
    """

    @property
    def device(self) -> torch.device: ...
    @property
    def peaks(self) -> Peaks: ...
    def entropy(self) -> Tensor: ...
    def second_best(self) -> Tensor: ...
    def logit_of(self, tokens: Tensor) -> Tensor: ...
    def drawn(self, temperature: float, key: int, update: int) -> Tensor: ...
    def likeliest(self, count: int) -> tuple[Tensor, Tensor]: ...
    def whole(self) -> Tensor:
        """[n, V]: all of them, which takes V numbers per column."""
        ...


@dataclass(frozen=True)
class RowLogits:
    """The logits of one row: `values[i]` [V] scores the token at answer column `columns[i]`."""

    scores: Tensor | SplitLogits
    """[n, V], or what stands for it."""
    places: tuple[int, ...]
    """The columns, ascending, counted from the start of the response."""
    reduced: Reduced | None = None
    """The reduction, where it has been made and fetched already."""

    @cached_property
    def values(self) -> Tensor:
        """[n, V]"""
        return self.scores if isinstance(self.scores, Tensor) else self.scores.whole()

    def with_values(self, values: Tensor) -> RowLogits:
        """Other logits [n, V] of the same columns."""
        return RowLogits(values, self.places)

    def apart(self) -> RowLogits:
        """The same, without holding on to the rest of the pass that made it."""
        if not isinstance(self.scores, Tensor):
            return self
        whole = self.scores.untyped_storage().nbytes()
        if whole == self.scores.numel() * self.scores.itemsize:
            return self
        return RowLogits(self.scores.clone(), self.places)

    @property
    def device(self) -> torch.device:
        return self.scores.device

    @cached_property
    def columns(self) -> Tensor:
        """Long[n]: the same columns on the device."""
        return torch.tensor(self.places, dtype=torch.long, device=self.device)

    def peaks(self, mask: int) -> Peaks:
        if self.reduced is not None:
            return self.reduced.peaks
        return peaks_of(self.scores, mask) if isinstance(self.scores, Tensor) else self.scores.peaks

    def entropy(self, peaks: Peaks) -> Tensor:
        """Float64[n]"""
        if isinstance(self.scores, Tensor):
            return entropy_of(self.scores, peaks)
        return self.scores.entropy()

    def second_best(self, peaks: Peaks, mask: int) -> Tensor:
        """[n]"""
        if isinstance(self.scores, Tensor):
            return second_best(self.scores, peaks.tokens, mask)
        return self.scores.second_best()

    def logit_of(self, tokens: Tensor) -> Tensor:
        """Long[n] -> [n]"""
        if isinstance(self.scores, Tensor):
            return logit_of(self.scores, tokens)
        return self.scores.logit_of(tokens)

    def drawn(self, temperature: float, key: int, update: int, mask: int) -> Tensor:
        """Long[n]: tokens drawn with the noise of this row and update."""
        if not isinstance(self.scores, Tensor):
            return self.scores.drawn(temperature, key, update)
        generator = noise.stream(key, update, self.device)
        return gumbel_argmax(self.scores, temperature, generator, mask)

    def likeliest(self, count: int) -> tuple[Tensor, Tensor]:
        """Logits and tokens [n, k], k = `count` or all there are, highest first."""
        if not isinstance(self.scores, Tensor):
            return self.scores.likeliest(count)
        logits, tokens = self.scores.topk(min(count, self.scores.shape[1]), dim=1)
        return logits, tokens
