"""How sure the model is of a column, as the different samplers measure it.

Axes: B rows, G response columns.  Every score is "higher is surer"; NaN where there are no logits.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from archer.decoders.base import DecodeState, chance
from archer.logits import Candidates, Logits

Score = Literal["confidence", "entropy", "margin", "random"]


def score(kind: Score, logits: Logits, best: Candidates, state: DecodeState) -> Tensor:
    """Float64[B, G]: probability of the candidate, negative entropy, lead over the runner-up, or chance."""
    if kind == "confidence":
        return best.confidence
    if kind == "entropy":
        return -logits.entropy
    if kind == "margin":
        return logits.margin
    return chance(state, "order")
