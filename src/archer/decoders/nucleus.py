"""Tempered, truncated distributions: what samplers with top-p and top-k draw from.

Axes: n read columns of one row, V vocabulary.
The only place where the vocabulary is sorted.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from archer.decoders.base import DecodeState
from archer.engine.logits import Answers, Logits, RowLogits


def truncated(logits: Logits, temperature: float, top_p: float | None, top_k: int | None) -> Logits:
    """Float64 logits at this temperature, -inf where cut off; the mask id never survives."""
    return logits.changed(
        [
            replace(row, values=_truncated(row, logits.mask, temperature, top_p, top_k))
            for row in logits.rows
        ]
    )


def drawn(cut: Logits, state: DecodeState, temperature: float) -> Answers:
    """One token per read column of truncated logits; greedy and without randomness at temperature 0.

    Confidence is the token's probability after tempering and truncation.
    """
    if temperature == 0:
        return cut.greedy
    return cut.sampled(1.0, state.prompt.keys, state.updates)


def _truncated(
    row: RowLogits, mask: int, temperature: float, top_p: float | None, top_k: int | None
) -> Tensor:
    """[n, V] -> Float64[n, V]"""
    weights = row.values.double() / (temperature if temperature > 0 else 1.0)
    weights[:, mask] = -torch.inf
    if top_p is not None and top_p < 1:
        ranked = weights.sort(dim=1, descending=True, stable=True)
        before = ranked.values.softmax(dim=1).cumsum(dim=1).roll(1, dims=1)
        before[:, 0] = 0.0
        cut = torch.zeros_like(before, dtype=torch.bool).scatter_(1, ranked.indices, before > top_p)
        weights = weights.masked_fill(cut, -torch.inf)
    if top_k is not None and top_k < weights.shape[1]:
        least = weights.topk(top_k, dim=1).values[:, -1:]
        weights = weights.masked_fill(weights < least, -torch.inf)
    return weights
