"""Logits as a decoder reads them."""

from archer.passes.logits import Candidates, Logits


def greedy(logits: Logits) -> Candidates:
    """The most likely tokens and their probabilities, on the host."""
    return logits.read(logits.greedy)[0]
