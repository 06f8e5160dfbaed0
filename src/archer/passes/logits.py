"""What a pass returns, and all that a decoder may ask of it.

Axes: B rows, A answer columns (response, then scratch), n columns read in one row, V vocabulary, k tokens per
column.

The logits of a row are one tensor, or spread over the shards of a network; who asks does not see which.

Confidence is float64: 1 / (1 + s), s the sum of exp(z_v - z_max) over the other tokens.  In float32
it would saturate at 1.0 and ties, not the rule, would pick the tokens to take back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from archer.passes import noise
from archer.passes.canvas import Flags, Ints, Reals
from archer.passes.reduction import (
    CHUNK,
    Peaks,
    entropy_of,
    exact,
    gumbel_argmax,
    logit_of,
    peaks_of,
    second_best,
    to_host,
)


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
    """One row's logits where each shard has its part of the vocabulary; asking exchanges a few numbers."""

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
    _peaks: dict[int, Peaks] = field(default_factory=dict, init=False, repr=False, compare=False)
    """By mask id, of which there is one: the reduction, once somebody has asked for it."""

    @cached_property
    def values(self) -> Tensor:
        """[n, V]"""
        return self.scores if isinstance(self.scores, Tensor) else self.scores.whole()

    @property
    def exact(self) -> Tensor:
        """Float64[n, V], on the host where the device has no float64."""
        return exact(self.values)

    def rewritten(self, change: Callable[[Tensor], Tensor]) -> RowLogits:
        """The float64 logits that `change` makes of these, [m, V] -> [m, V].

        A few columns at a time: what it needs meanwhile does not grow with their number.
        """
        first, *others = self.values.split(max(1, CHUNK // self.values.shape[1]))
        changed = change(exact(first))
        if not others:
            return self.with_values(changed)
        whole, filled = changed.new_empty(self.values.shape), len(changed)
        whole[:filled] = changed
        for each in others:
            whole[filled : filled + len(each)] = change(exact(each))
            filled += len(each)
        return self.with_values(whole)

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
        return RowLogits(self.scores.clone(), self.places, self.reduced)

    @property
    def device(self) -> torch.device:
        return self.scores.device

    @cached_property
    def columns(self) -> Tensor:
        """Long[n]: the same columns on the device."""
        return torch.tensor(self.places, dtype=torch.long, device=self.device)

    def peaks(self, mask: int) -> Peaks:
        """The one reduction over the vocabulary, made once however many ask."""
        if self.reduced is not None:
            return self.reduced.peaks
        if mask not in self._peaks:
            scores = self.scores
            peaks = peaks_of(scores, mask) if isinstance(scores, Tensor) else scores.peaks
            self._peaks[mask] = peaks
        return self._peaks[mask]

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


Rows = tuple[Tensor, ...]
"""For each row one tensor [n]: a number for every column that was read."""


@dataclass(frozen=True)
class Answers:
    """The token a decoder would place in each column, and what its probability is made of."""

    tokens: Rows
    """Long[n]: never the mask id."""
    logits: Rows
    """Float[n]: their logits."""
    peaks: tuple[Peaks, ...]
    """The distributions that these belong to."""


@dataclass(frozen=True)
class Candidates:
    """The same on the host, where decoders decide."""

    tokens: Ints
    """[B, A]: never the mask id; 0 where nothing is known."""
    confidence: Reals
    """[B, A]: softmax probability of that token over the whole vocabulary; NaN where unknown."""


class Logits:
    """Logits of the columns that were read, row by row; the only thing a decoder learns from the model.

    What is as wide as the vocabulary is worked out where the logits are; `read` brings the few numbers that
    are left of it to the host, in one transfer, and finishes them there.
    """

    def __init__(
        self,
        rows: Sequence[RowLogits],
        answers: int,
        mask: int,
        made_of: Logits | None = None,
    ) -> None:
        self.rows = tuple(rows)
        self.answers = answers
        self.mask = mask
        self.decided = False
        """Each column has one candidate, which was chosen before: there is nothing to draw or to cut."""
        self._made_of = made_of and made_of._source
        self._sound: Flags | None = None
        self._fetched: list[tuple[Tensor, NDArray[Any]]] = []
        """What is on the host already: a rule and what wraps it often read the same."""

    @classmethod
    def dense(cls, values: Tensor, mask: int) -> Logits:
        """From [B, A, V] with every column known: hand-made logits, or a shadow pass."""
        answers = values.shape[1]
        return cls([RowLogits(row, tuple(range(answers))) for row in values], answers, mask)

    def changed(self, rows: Sequence[RowLogits]) -> Logits:
        """Other logits made of these, whose soundness is still theirs; a row's reduction is dropped."""
        plain = [RowLogits(row.scores, row.places) for row in rows]
        return Logits(plain, self.answers, self.mask, made_of=self)

    @property
    def _source(self) -> Logits:
        """What the pass returned, whose soundness is theirs.

        Never kept as a reference to itself: logits must go with their update, and not when Python collects.
        """
        return self._made_of or self

    def read(self, best: Answers, *more: Rows) -> tuple[Candidates, tuple[NDArray[Any], ...]]:
        """Answers and any other numbers on the host, [B, A] each; 0 or NaN where nothing is known."""
        made_of = best.logits, [p.top for p in best.peaks], [p.rest for p in best.peaks]
        tokens, *parts = self._source._fetch(best.tokens, *made_of, *more)
        sure = list(map(_probability, *parts[:3]))
        candidates = Candidates(self._placed(tokens), self._placed(sure))
        return candidates, tuple(map(self._placed, parts[3:]))

    @property
    def sound(self) -> Flags:
        """[B]: no NaN and no +inf among the row's logits, and not everything -inf; comes with a read."""
        if self._source._sound is None:
            self._source._fetch()
        assert self._source._sound is not None
        return self._source._sound

    def note_soundness(self, rows: Sequence[bool]) -> None:
        """What a rule knows of each row that it does not reduce, so that nobody reduces it for that."""
        if self._made_of is None and all(row.reduced is None for row in self.rows):
            self._sound = np.array(rows)

    def _fetch(self, *tensors: Sequence[Tensor]) -> list[list[NDArray[Any]]]:
        """Each of `tensors` on the host, row by row, and with it whether the logits are sound."""
        own = [(p.best, p.top, p.rest) for p in self.peaks] if self._sound is None else []
        arrays = iter(self._on_host([*chain(*own, *tensors)]))
        if own:
            self._sound = np.array([_sound(*islice(arrays, 3)) for _ in own])
        return [list(islice(arrays, len(each))) for each in tensors]

    def _on_host(self, tensors: Sequence[Tensor]) -> list[NDArray[Any]]:
        """Fetch what has not been fetched yet."""
        known = {
            id(tensor): array
            for row in self.rows
            if row.reduced is not None
            for tensor, array in zip(row.reduced.peaks.tensors, row.reduced.fetched, strict=True)
        }
        known |= {id(tensor): array for tensor, array in self._fetched}
        missing = {id(tensor): tensor for tensor in tensors if id(tensor) not in known}
        if missing:
            arrays = to_host(*missing.values())
            self._fetched += zip(missing.values(), arrays, strict=True)
            known |= zip(missing, arrays, strict=True)
        return [known[id(tensor)] for tensor in tensors]

    def select(self, rows: Sequence[int]) -> Logits:
        return Logits([self.rows[row] for row in rows], self.answers, self.mask)

    @cached_property
    def peaks(self) -> tuple[Peaks, ...]:
        """One reduction per row."""
        return tuple(row.peaks(self.mask) for row in self.rows)

    @cached_property
    def greedy(self) -> Answers:
        """The most likely token of each column."""
        return Answers(
            tuple(p.tokens for p in self.peaks), tuple(p.best for p in self.peaks), self.peaks
        )

    def sampled(self, temperature: float, keys: Sequence[int], updates: Sequence[int]) -> Answers:
        """Tokens drawn at `temperature`, with their untempered probability; greedy at 0, drawing nothing."""
        if temperature == 0:
            return self.greedy
        draws = zip(self.rows, keys, updates, strict=True)
        return self.answering(
            tuple(row.drawn(temperature, key, update, self.mask) for row, key, update in draws)
        )

    def answering(self, tokens: Rows) -> Answers:
        """These tokens, as likely as they are here."""
        values = [row.logit_of(each) for row, each in zip(self.rows, tokens, strict=True)]
        return Answers(tokens, tuple(values), self.peaks)

    def at(self, tokens: Ints) -> Rows:
        """[B, A] -> Long[n] per row: of given tokens those of the columns that were read."""
        placed = torch.from_numpy(tokens).to(self.rows[0].device)
        return tuple(placed[index][row.columns] for index, row in enumerate(self.rows))

    def probability(self, tokens: Rows) -> Rows:
        """Float64[n]: probability of the given token at each column."""
        answers = self.answering(tokens)
        return tuple(p.probability(z) for p, z in zip(self.peaks, answers.logits, strict=True))

    def log_probability(self, tokens: Rows) -> Rows:
        """Float64[n]: the logarithm of the same, which does not vanish with it."""
        answers = self.answering(tokens)
        pairs = zip(self.peaks, answers.logits, strict=True)
        return tuple(peaks.log_probability(logit) for peaks, logit in pairs)

    @cached_property
    def entropy(self) -> Rows:
        """Float64[n]: entropy of each distribution in nats."""
        return tuple(row.entropy(peaks) for row, peaks in self._pairs())

    @cached_property
    def margin(self) -> Rows:
        """Float64[n]: lead of the best candidate over the next, as probabilities."""
        return tuple(
            peaks.probability(peaks.best) - peaks.probability(row.second_best(peaks, self.mask))
            for row, peaks in self._pairs()
        )

    def _pairs(self) -> Iterator[tuple[RowLogits, Peaks]]:
        return zip(self.rows, self.peaks, strict=True)

    def placed(self, rows: Rows) -> NDArray[Any]:
        """[n] per row -> [B, A] on the host; NaN where nothing was read."""
        return self._placed(to_host(*rows))

    def _placed(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """[n] per row -> [B, A]"""
        if len(parts) == 1 and len(parts[0]) == self.answers:
            return parts[0][None]
        kind = parts[0].dtype
        placed = np.full((len(parts), self.answers), 0 if kind == np.int64 else np.nan, kind)
        for index, (row, part) in enumerate(zip(self.rows, parts, strict=True)):
            placed[index, list(row.places)] = part
        return placed


def _probability(logit: Reals, top: Reals, rest: Reals) -> Reals:
    """`Peaks.probability` on the host."""
    with np.errstate(invalid="ignore"):
        below = np.subtract(logit, top, dtype=np.float64)
    return np.asarray(np.exp(below) / np.add(1.0, rest, dtype=np.float64))


def _sound(best: Reals, top: Reals, rest: Reals) -> bool:
    """No NaN and no infinity among [n] each."""
    highest, most = top.max(initial=0.0), rest.max(initial=0.0)
    return bool(highest < np.inf and most < np.inf and best.min(initial=0.0) > -np.inf)
