"""What a pass expected: the likeliest tokens of each column with their surprisal, and a bound for all others.

Axes: n columns read in one row, k tokens kept per column, V vocabulary, G response columns.

Kept instead of the logits themselves: n x k numbers where those are n x V.  A token that is not among the k
likeliest has at most probability 1 / (k + 1), so it carries at least log(k + 1) nats.  A rule that asks only
whether some nats are reached, with a limit of at most log(k + 1), is therefore answered exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from archer.passes.canvas import Ints, Reals
from archer.passes.logits import Logits, RowLogits
from archer.passes.reduction import to_host


def kept_for(nats: float) -> int:
    """How many tokens per column answer a limit of so many nats exactly."""
    return max(1, math.ceil(math.exp(nats) - 1.0))


@dataclass(frozen=True)
class Foresight:
    """One row's expectation, as made by one pass."""

    made: int
    """Which of the row's passes made it, counted from 1."""
    places: Ints
    """[n]: the columns, counted from the start of the response; scratch columns stand behind it."""
    tokens: Ints
    """[n, k]: likeliest first; never the mask id."""
    nats: Reals
    """[n, k]: minus the logarithm of their probability."""

    @classmethod
    def of(cls, passes: Sequence[tuple[int, RowLogits]], mask: int, kept: int) -> list[Foresight]:
        """Of the logits that rows were given, each with which of its passes it was; the host waits once."""
        pairs = [_likeliest(row, mask, kept) for _, row in passes]
        arrays = to_host(*(tensor for pair in pairs for tensor in pair))
        return [
            cls(made, np.array(row.places, dtype=np.int64), tokens.copy(), nats.copy())
            for (made, row), tokens, nats in zip(passes, arrays[::2], arrays[1::2], strict=True)
        ]

    def of_tokens(self, placed: Ints) -> Reals:
        """[G] tokens -> [G] nats of each; the bound for one that was not kept, inf where nothing was read."""
        inside = self.places < len(placed)
        places, tokens, kept = self.places[inside], self.tokens[inside], self.nats[inside]
        same = tokens == placed[places, None]
        others = np.maximum(kept[:, -1], math.log(tokens.shape[1] + 1.0))
        nats = np.full(placed.shape, np.inf)
        nats[places] = np.where(same.any(axis=1), np.where(same, kept, 0.0).sum(axis=1), others)
        return nats


def _likeliest(row: RowLogits, mask: int, kept: int) -> tuple[Tensor, Tensor]:
    """[n, k] each: the likeliest tokens of every column that was read, and their nats."""
    (peaks,) = Logits([row], 0, mask).peaks
    mass = peaks.rest.double().log1p() + peaks.top.double()
    if kept == 1:
        tokens, logits = peaks.tokens[:, None], peaks.best[:, None]
    else:
        logits, tokens = row.likeliest(kept + 1)
        order = (tokens == mask).to(torch.int8).argsort(dim=1, stable=True)
        order = order[:, : tokens.shape[1] - 1]
        tokens, logits = tokens.gather(1, order), logits.gather(1, order)
    nats = (mass[:, None] - logits.double()).clamp(min=0.0)
    return tokens.contiguous(), nats.contiguous()
