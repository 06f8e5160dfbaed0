"""How sure the model is of a column, as the different samplers measure it.

Axes: B rows, G response columns.  Every score is "higher is surer"; NaN where there are no logits.
"""

from __future__ import annotations

from typing import Literal

from archer.decoders.base import DecodeState, chance
from archer.passes.canvas import Reals
from archer.passes.logits import Answers, Candidates, Logits

Score = Literal["confidence", "entropy", "margin", "random"]


def scored(
    kind: Score, logits: Logits, best: Answers, state: DecodeState
) -> tuple[Candidates, Reals]:
    """The answers on the host, and [B, G] the probability, negative entropy or lead of each, or chance."""
    if kind == "entropy":
        found, (entropy,) = logits.read(best, logits.entropy)
        return found, -entropy
    if kind == "margin":
        found, (margin,) = logits.read(best, logits.margin)
        return found, margin
    found, _ = logits.read(best)
    return found, found.confidence if kind == "confidence" else chance(state, "order")
