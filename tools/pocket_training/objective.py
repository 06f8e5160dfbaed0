"""LLaDA's fine-tuning loss: mask response tokens at a random rate, predict them, weigh by 1 / rate.

Axes: B rows, L columns, N masked positions, d width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from archer.network.network import Transformer
from archer.network.shape import PromptFirst
from pocket_training.network import hidden_states
from pocket_training.subject import Batch

LEAST_RATE = 0.02
TAILED = 0.3
"""Share of the rows that show some of the end marks behind the answer, as decoding by confidence does."""

MOST_SLIPS = 0.2
"""Up to which share tokens are replaced in a row that is checked."""

Forward = Callable[[Transformer, Tensor, Tensor | None], Tensor]
"""`hidden_states`, compiled or not."""


@dataclass(frozen=True)
class Masked:
    """A batch with holes."""

    tokens: Tensor
    """Long[B, L] with the mask id in what is masked."""
    truth: Tensor
    """Long[B, L]"""
    holes: Tensor
    """Bool[B, L]: what is asked for. It is masked, or shown in a row that is checked."""
    weights: Tensor
    """[B, L]: 1 / (rate x columns that may be masked x rows)."""
    prompts: Tensor
    """Long[B]: length of each row's prompt."""


def mask(batch: Batch, mask_id: int, source: torch.Generator) -> Masked:
    """Rates are spread evenly over (0, batch.most); every row gets at least one hole.

    In some rows the columns from a random place behind the answer on are shown and not counted.
    """
    truth = torch.tensor(batch.tokens)
    rows, columns = truth.shape
    stop = _stops(batch, columns, source)[:, None]
    offset = torch.rand(1, generator=source)
    rate = (torch.arange(rows) + offset) / rows * batch.most
    rate = rate[torch.randperm(rows, generator=source)].clamp(min=LEAST_RATE)[:, None]
    prompt = torch.tensor(batch.prompts)[:, None]
    places = torch.arange(columns)
    response = (places >= prompt) & (places < stop)
    for row, shown in enumerate(batch.shown):
        response[row, shown] = False
    noise = torch.rand(rows, columns, generator=source).masked_fill(~response, 2.0)
    holes = noise < rate
    holes |= noise == noise.min(dim=1, keepdim=True).values
    evenly = 1.0 / (response.sum(1, keepdim=True) * rows)
    weights = (evenly / rate).expand(rows, columns)
    tokens = truth.masked_fill(holes, mask_id)
    if batch.checked:
        checked = (torch.rand(rows, 1, generator=source) < batch.checked) & response & ~holes
        tokens = torch.where(checked, _with_slips(truth, response, source), tokens)
        weights = torch.where(checked, evenly, weights)
        holes = holes | checked
    return Masked(tokens, truth, holes, weights, prompt[:, 0])


def _with_slips(truth: Tensor, response: Tensor, source: torch.Generator) -> Tensor:
    """Long[B, L]: some tokens are replaced by others of the same response."""
    rows, columns = truth.shape
    rate = torch.rand(rows, 1, generator=source) * MOST_SLIPS
    other = torch.multinomial(response.float(), columns, replacement=True, generator=source)
    slipped = torch.rand(rows, columns, generator=source) < rate
    return torch.where(slipped, truth.gather(1, other), truth)


def _stops(batch: Batch, columns: int, source: torch.Generator) -> Tensor:
    """Long[B]: the column behind the last one that may be masked."""
    rows = len(batch.tokens)
    ends = torch.tensor(batch.ends)
    drawn = ends + (torch.rand(rows, generator=source) * (columns - ends)).long()
    tailed = torch.rand(rows, generator=source) < TAILED
    return torch.where(tailed, drawn, columns)


def loss(
    network: Transformer,
    masked: Masked,
    forward: Forward = hidden_states,
) -> Tensor:
    """The weighted cross-entropy of the holes, a scalar: scored and seen as the network's shape says."""
    shift = network.shape.shift
    blind = isinstance(network.shape.attention, PromptFirst)
    hidden = forward(network, masked.tokens, prompt_blind(masked) if blind else None)
    states = hidden[:, :-1][masked.holes[:, 1:]] if shift else hidden[masked.holes]
    entropy = F.cross_entropy(network.score(states), masked.truth[masked.holes], reduction="none")
    return (entropy * masked.weights[masked.holes]).sum()


def prompt_blind(masked: Masked) -> Tensor:
    """Bool[B, L, L], query by key: a response column sees everything, a prompt column the prompt."""
    inside = torch.arange(masked.tokens.shape[1]) < masked.prompts[:, None]
    return inside[:, None, :] | ~inside[:, :, None]
