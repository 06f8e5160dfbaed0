"""Drawing tokens from a tempered, truncated distribution: what samplers with top-p and top-k need.

Axes: B rows, A answer columns, n read columns of one row, V vocabulary.
The only place where the vocabulary is sorted.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from archer import noise
from archer.decoders.base import DecodeState
from archer.logits import Answers, Logits, RowLogits


@dataclass(frozen=True)
class Drawn:
    """Tokens with what their truncated distributions look like."""

    answers: Answers
    """Confidence is the token's probability after tempering and truncation."""
    entropy: Tensor
    """Float64[B, A]"""
    margin: Tensor
    """Float64[B, A]"""


def draw(
    logits: Logits, state: DecodeState, temperature: float, top_p: float | None, top_k: int | None
) -> Drawn:
    """One token per read column; greedy and without randomness at temperature 0."""
    size = (len(logits.rows), logits.answers)
    device = logits.rows[0].values.device
    tokens = torch.zeros(size, dtype=torch.long, device=device)
    measured = torch.full((3, *size), torch.nan, dtype=torch.float64, device=device)
    for index, row in enumerate(logits.rows):
        weights = _truncated(row, logits.mask, temperature, top_p, top_k)
        chances = weights.softmax(dim=1)
        if temperature > 0:
            stream = noise.stream(state.prompt.keys[index], state.updates[index], weights.device)
            token = (weights + noise.gumbel(stream, *weights.shape)).argmax(dim=1)
        else:
            token = weights.argmax(dim=1)
        best = chances.topk(2, dim=1).values
        tokens[index, row.columns] = token
        measured[0, index, row.columns] = chances.gather(1, token[:, None]).squeeze(1)
        measured[1, index, row.columns] = torch.special.entr(chances).sum(dim=1)
        measured[2, index, row.columns] = best[:, 0] - best[:, 1]
    return Drawn(Answers(tokens, measured[0]), measured[1], measured[2])


def _truncated(
    row: RowLogits, mask: int, temperature: float, top_p: float | None, top_k: int | None
) -> Tensor:
    """Float64[n, V]: tempered log-weights, -inf where cut off; the mask id never survives."""
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
