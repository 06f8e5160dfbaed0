"""Logits whose vocabulary is spread over shards: each reduces its own part, then a few numbers are exchanged.

Axes: t shards, n columns, W tokens of this shard, V of all of them, k tokens per column.

Every shard calls the same function at the same time and comes to the same answer; only `whole` brings logits
together.  Equal logits go to the lowest id, which the lowest shard has.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from archer.network.group import Group
from archer.passes import noise
from archer.passes.reduction import (
    Peaks,
    entropy_from,
    gumbel_best,
    logit_of,
    peaks_of,
    second_best,
    weighted_below,
)


@dataclass(frozen=True)
class Words:
    """The tokens that this shard scores."""

    group: Group
    vocabulary: int
    mask: int

    @property
    def span(self) -> slice:
        return self.group.shard.span(self.vocabulary)

    @property
    def own_mask(self) -> int | None:
        """The mask id among this shard's tokens."""
        own = self.span
        return self.mask - own.start if own.start <= self.mask < own.stop else None

    @property
    def widest(self) -> int:
        """The most tokens that a shard has."""
        return -(-self.vocabulary // self.group.shard.of)


def embed(words: Words, tokens: Tensor, embedding: Tensor) -> Tensor:
    """Long[N], [W, d] -> [N, d]: each row comes from the shard that has its token, exactly."""
    own = tokens - words.span.start
    away = (own < 0) | (own >= len(embedding))
    rows = F.embedding(own.masked_fill(away, 0), embedding)
    return words.group.sum(rows.masked_fill(away[:, None], 0.0))


def joint_peaks(words: Words, values: Tensor, digest: Tensor) -> tuple[Peaks, Tensor]:
    """[n, W], Float64[4] -> the peaks over all tokens, and the digests [t, 4] of all shards."""
    own = peaks_of(values, words.own_mask)
    numbers = own.tokens + words.span.start, own.best, own.top, own.rest
    stacked = torch.stack([each.double() for each in numbers], dim=1)
    gathered = words.group.gather(torch.cat((stacked, digest[None])))
    kind = own.top.dtype
    tokens, best, top, rest = gathered[:, :-1].unbind(dim=2)
    highest = top.amax(dim=0)
    summit = _first_highest(top)
    others = torch.where(top == -torch.inf, 0.0, (1.0 + rest) * (top - highest).exp())
    others = others.scatter(0, summit, rest.gather(0, summit))
    chosen = tokens.gather(0, _first_highest(best)).squeeze(0).long()
    peaks = Peaks(chosen, best.amax(dim=0).to(kind), highest.to(kind), others.sum(dim=0).to(kind))
    return peaks, gathered[:, -1]


def entropy(words: Words, values: Tensor, peaks: Peaks) -> Tensor:
    """[n, W] -> Float64[n]"""
    weighted = words.group.gather(weighted_below(values, peaks.top)).sum(dim=0)
    return entropy_from(weighted, peaks)


def second(words: Words, values: Tensor, peaks: Peaks) -> Tensor:
    """[n, W] -> [n]: the largest logit but the best candidate's and the mask id's."""
    own = second_best(values, peaks.tokens - words.span.start, words.own_mask)
    return words.group.gather(own).amax(dim=0)


def logits_of(words: Words, values: Tensor, tokens: Tensor) -> Tensor:
    """[n, W], Long[n] -> [n]: each from the shard that has the token."""
    own = tokens - words.span.start
    away = (own < 0) | (own >= values.shape[1])
    part = logit_of(values, own.masked_fill(away, 0)).masked_fill(away, 0.0)
    return words.group.gather(part).sum(dim=0)


def drawn(words: Words, values: Tensor, temperature: float, key: int, update: int) -> Tensor:
    """[n, W] -> Long[n]: every shard draws the noise of the whole vocabulary and uses its own part."""
    generator = noise.stream(key, update, values.device)
    span, mask = words.span, words.own_mask
    own = gumbel_best(values, temperature, generator, mask, span, words.vocabulary)
    gathered = words.group.gather(
        torch.stack(((own.tokens + span.start).double(), own.best), dim=1)
    )
    tokens, best = gathered.unbind(dim=2)
    return tokens.gather(0, _first_highest(best)).squeeze(0).long()


def likeliest(words: Words, values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """[n, W] -> logits and tokens [n, k], highest first."""
    kept = min(count, words.widest)
    logits, tokens = values.topk(min(kept, values.shape[1]), dim=1)
    short = (0, kept - logits.shape[1])
    ids = F.pad(tokens + words.span.start, short).double()
    gathered = words.group.gather(
        torch.stack((F.pad(logits.double(), short, value=-torch.inf), ids))
    )
    together, names = gathered.permute(1, 2, 0, 3).flatten(2)
    best = together.sort(dim=1, descending=True, stable=True)
    few = min(count, words.vocabulary)
    order = best.indices[:, :few]
    return best.values[:, :few].to(values.dtype), names.gather(1, order).long()


def whole(words: Words, values: Tensor) -> Tensor:
    """[n, W] -> [n, V]"""
    padded = F.pad(values, (0, words.widest - values.shape[1]))
    parts = words.group.gather(padded)
    sizes = (words.group.shard.at(rank).span(words.vocabulary) for rank in range(len(parts)))
    return torch.cat(
        [part[:, : own.stop - own.start] for part, own in zip(parts, sizes, strict=True)], dim=1
    )


def _first_highest(values: Tensor) -> Tensor:
    """[t, n] -> Long[1, n]: the lowest shard with the highest number."""
    ranks = torch.arange(len(values), device=values.device)[:, None]
    last = len(values) - 1
    return torch.where(values == values.amax(dim=0), ranks, last).amin(dim=0, keepdim=True)
