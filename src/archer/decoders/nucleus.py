"""Tempered, truncated distributions: what samplers with top-p and top-k draw from.

Axes: n read columns of one row, V vocabulary.
The only place where the vocabulary is sorted.
"""

import torch
from torch import Tensor

from archer.decoders.base import DecodeState
from archer.passes.logits import Answers, Logits


def truncated(
    logits: Logits,
    temperature: float,
    top_p: float | None,
    top_k: int | None,
    *,
    top_k_first: bool = False,
    mask_weighs: bool = False,
) -> Logits:
    """Float64 logits at this temperature, -inf where cut off.

    Released samplers differ in the order: Dream cuts by top-p, then by top-k; with `top_k_first` top-p cuts
    what top-k has left, as in LLaDA2.
    The mask id is never drawn.  It is taken out before the cuts, so that the others share its probability;
    with `mask_weighs` it is cut like any other token and keeps its probability, as in the released code.
    Then the best of the others stays even where only the mask id would.
    """
    if logits.decided:
        return logits

    def cut(exact: Tensor) -> Tensor:
        weights = exact / (temperature if temperature > 0 else 1.0)
        others = weights.clone()
        others[:, logits.mask] = -torch.inf
        left = weights if mask_weighs else others
        if top_k_first:
            left = _nucleus(_likeliest(left, top_k), top_p)
        else:
            left = _likeliest(_nucleus(left, top_p), top_k)
        best = others.max(dim=1, keepdim=True)
        return left.scatter(1, best.indices, best.values)

    return logits.changed([row.rewritten(cut) for row in logits.rows])


def drawn(cut: Logits, state: DecodeState, temperature: float) -> Answers:
    """One token per read column of truncated logits, with its probability there; greedy at temperature 0."""
    if temperature == 0:
        return cut.greedy
    return cut.sampled(1.0, state.prompt.keys, state.updates)


def _nucleus(weights: Tensor, share: float | None) -> Tensor:
    """[n, V] -> [n, V]: the likeliest tokens up to the first with which they exceed the share."""
    if share is None or share >= 1:
        return weights
    ranked = weights.sort(dim=1, descending=True, stable=True)
    before = ranked.values.softmax(dim=1).cumsum(dim=1).roll(1, dims=1)
    before[:, 0] = 0.0
    cut = torch.zeros_like(before, dtype=torch.bool).scatter_(1, ranked.indices, before > share)
    return weights.masked_fill(cut, -torch.inf)


def _likeliest(weights: Tensor, count: int | None) -> Tensor:
    """[n, V] -> [n, V]: the `count` likeliest tokens, and whatever ties with the last of them."""
    if count is None or count >= weights.shape[1]:
        return weights
    least = weights.topk(count, dim=1).values[:, -1:]
    return weights.masked_fill(weights < least, -torch.inf)
