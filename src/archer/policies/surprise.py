"""Refresh when the response says what the prompt's cache did not foresee.

Axes: B rows, L columns, G response columns, n columns read in one row, k tokens kept per column.

A token that the anchor's pass expected moves the prompt little; one that it did not expect moves it much.
What is counted is information: nats under the anchor's own logits.  Of these the k likeliest tokens of each
column are kept.  Any other token carries at least log(k + 1) nats, and at least what the last of the k
carries; `kept_for` chooses k so that this bound alone reaches a limit.  So a rule that compares with that
limit decides as if all logits had been kept.
"""

import math
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from archer.passes.canvas import Canvas, Flags, Ints, Reals
from archer.passes.logits import Logits, RowLogits
from archer.passes.memory import Memory, Notes
from archer.passes.reduction import exact, to_host
from archer.policies.base import PromptCache, prompt_kept

MOST_NATS = 6.0
"""Beyond it hundreds of tokens per column would have to be kept, and the prompt would never be refreshed."""


def kept_for(nats: float) -> int:
    """How many tokens per column answer a limit of `nats` exactly."""
    return max(1, math.ceil(math.exp(nats) - 1.0))


@dataclass(frozen=True)
class Surprise(PromptCache):
    """Refresh the prompt when the tokens placed since the anchor carry `nats` under the anchor's logits.

    Tokens that were taken back count nothing.  Where a prompt cache is exact the nats have no effect: a
    prompt that sees no response is never surprised.
    """

    nats: Annotated[float, Field(ge=0, le=MOST_NATS)] = 0.3
    """0 is eager decoding."""

    def start(self, canvas: Canvas) -> Notes:
        """[B, G, k]: the likeliest tokens of each column, and their nats; inf where nothing was read."""
        size = (*canvas.placed().shape, kept_for(self.nats))
        return {"tokens": np.full(size, -1), "nats": np.full(size, np.inf)}

    def noted(self, canvas: Canvas, memory: Memory, full: Flags, logits: Logits) -> Notes:
        """What the rows that have a new anchor expect of every column."""
        anchors = np.flatnonzero(full).tolist()
        if not anchors or canvas.exact:
            return memory.notes
        notes = self.start(canvas)
        for name, kept in memory.notes.items():
            notes[name][~full] = kept[~full]
        rows = [logits.rows[row] for row in anchors]
        pairs = [likeliest(row, canvas.mask, kept_for(self.nats)) for row in rows]
        arrays = to_host(*(tensor for pair in pairs for tensor in pair))
        for at, row, tokens, nats in zip(anchors, rows, arrays[::2], arrays[1::2], strict=True):
            places = np.array(row.places, dtype=np.int64)
            inside = places < notes["tokens"].shape[1]
            notes["tokens"][at, places[inside], : tokens.shape[1]] = tokens[inside]
            notes["nats"][at, places[inside], : tokens.shape[1]] = nats[inside]
        return notes

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        return self.ask(canvas, memory)[0]

    def ask(self, canvas: Canvas, memory: Memory) -> tuple[Flags, Reals]:
        """With the nats so far."""
        nats = surprisal(canvas, memory)
        return prompt_kept(canvas, memory, nats >= self.nats), nats


def surprisal(canvas: Canvas, memory: Memory) -> Reals:
    """[B]: nats that the tokens placed since the anchor carry under the anchor's own logits.

    Of a token that is not among those kept the least that it can carry is counted.  0 where nothing was
    placed, inf where it is not known what the anchor expected.  Always 0 where a prompt cache is exact, as
    the distance.
    """
    if canvas.exact:
        return np.zeros(canvas.rows)
    placed = canvas.placed()
    new = (placed != memory.anchor[:, canvas.open]) & (placed != canvas.mask)
    if not new.any():
        return np.zeros(canvas.rows)
    nats = nats_of(placed, memory.notes["tokens"], memory.notes["nats"])
    total: Reals = np.where(new, nats, 0.0).sum(axis=1)
    return total


def nats_of(placed: Ints, tokens: Ints, nats: Reals) -> Reals:
    """[B, G] -> [B, G]: nats of each token; a bound for one that was not kept, inf where nothing was read."""
    same = tokens == placed[..., None]
    others = np.maximum(nats[..., -1], math.log(tokens.shape[-1] + 1.0))
    surprise: Reals = np.where(same.any(axis=-1), np.where(same, nats, 0.0).sum(axis=-1), others)
    return surprise


def likeliest(row: RowLogits, mask: int, kept: int) -> tuple[Tensor, Tensor]:
    """[n, k] each: the likeliest tokens of every column that was read, and their nats."""
    peaks = row.peaks(mask)
    mass = exact(peaks.rest).log1p() + exact(peaks.top)
    if kept == 1:
        tokens, logits = peaks.tokens[:, None], peaks.best[:, None]
    else:
        logits, tokens = row.likeliest(kept + 1)
        order = (tokens == mask).to(torch.int8).argsort(dim=1, stable=True)
        order = order[:, : tokens.shape[1] - 1]
        tokens, logits = tokens.gather(1, order), logits.gather(1, order)
    nats = (mass[:, None] - exact(logits)).clamp(min=0.0)
    return tokens.contiguous(), nats.contiguous()
