"""Estimators of how probable a text is, as plans of looks at it: what to mask, and how to weigh what is read.

Axes: G tokens of the text, P prompt columns, U different looks, D draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from archer.passes.canvas import Flags, Reals

LOWEST_SHARE, HIGHEST_SHARE = 0.2, 0.8
"""Of the tokens that a coupled draw masks."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Which looks are taken, and what every draw makes of them."""

    hidden: Flags
    """[U, G]: what each look masks."""
    unseen: Flags
    """[U, P]: what it masks of the prompt."""
    look: tuple[tuple[int, ...], ...]
    """Of each draw, its looks."""
    weights: tuple[Reals, ...]
    """Of each draw, [its looks, G]: how much each token counts there."""

    @classmethod
    def of(cls, draws: Sequence[Draw], unseen: Sequence[Flags]) -> Plan:
        """From what each draw masks and how it weighs it; looks that are the same are taken once."""
        numbers: dict[bytes, int] = {}
        hidden, prompts, looks, weights = [], [], [], []
        for draw, blind in zip(draws, unseen, strict=True):
            own = []
            for masked, _ in draw:
                key = masked.tobytes() + blind.tobytes()
                if key not in numbers:
                    numbers[key] = len(numbers)
                    hidden.append(masked)
                    prompts.append(blind)
                own.append(numbers[key])
            looks.append(tuple(own))
            weights.append(np.stack([weight for _, weight in draw]))
        return cls(np.stack(hidden), np.stack(prompts), tuple(looks), tuple(weights))

    def values(self, read: Reals) -> Reals:
        """[U, G] log-probabilities, anything where nothing is masked -> [D, G]: what each draw estimates."""
        return np.stack(
            [
                (weight * np.where(weight > 0, read[list(look)], 0.0)).sum(axis=0)
                for look, weight in zip(self.look, self.weights, strict=True)
            ]
        )


Draw = list[tuple[Flags, Reals]]
"""What each look of a draw masks, and how much each token counts there."""
Uniform = Callable[[int, int], Reals]
"""Numbers in [0, 1) for the draw of this number, as many as are wanted."""


def elbo(tokens: int, draws: int, uniform: Uniform) -> list[Draw]:
    """LLaDA's bound: mask k of the G tokens, k = 1 ... G being equally likely, and weigh by G / k.

    Two looks make a draw: k tokens of an order, and from its other end G + 1 - k.  The share of the first is
    taken from as many equal parts of (0, 1/2) as there are draws, of the second from those of (1/2, 1).
    """
    drawn: list[Draw] = []
    for draw in range(draws):
        numbers = uniform(draw, 1 + tokens)
        first = 1 + int((draw + numbers[0]) / (2 * draws) * tokens)
        order = numbers[1:].argsort(kind="stable")
        pair: Draw = []
        for chosen in (order[:first], order[first - 1 :]):
            masked = np.zeros(tokens, dtype=np.bool_)
            masked[chosen] = True
            pair.append((masked, np.where(masked, tokens / len(chosen) / 2, 0.0)))
        drawn.append(pair)
    return drawn


def one_step(tokens: int, draws: int) -> list[Draw]:
    """d1's: one look, everything masked."""
    everything = np.ones(tokens, dtype=np.bool_)
    return [[(everything, np.ones(tokens))] for _ in range(draws)]


def coupled(tokens: int, draws: int, uniform: Uniform) -> list[Draw]:
    """Coupled-GRPO's: half from a look with everything masked, half from a share t and from the others."""
    everything = np.ones(tokens, dtype=np.bool_)
    drawn: list[Draw] = []
    for draw in range(draws):
        numbers = uniform(draw, 1 + tokens)
        share = LOWEST_SHARE + (HIGHEST_SHARE - LOWEST_SHARE) * numbers[0]
        masked = numbers[1:] < share
        looks: Draw = [(everything, np.full(tokens, 0.5))]
        for part, weight in ((masked, share), (~masked, 1 - share)):
            if part.any():
                looks.append((part, np.where(part, 0.5 / weight, 0.0)))
        drawn.append(looks)
    return drawn
