"""How a mixture of experts chooses; apart from its arithmetic, so that tables of models need no torch."""

from enum import StrEnum


class Router(StrEnum):
    """How scores become a choice."""

    SOFTMAX = "softmax"
    """The largest probabilities, which are the weights as they are (LLaDA-MoE)."""
    GROUPED_SIGMOID = "grouped sigmoid"
    """The best of the best groups by biased sigmoids; weights without the bias, brought to a sum (LLaDA2)."""
