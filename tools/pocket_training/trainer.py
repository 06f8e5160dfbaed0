"""Training on some pools: what one process does between two points at which progress is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import process_time
from typing import Any

import torch

from pocket_training.learner import Learner
from pocket_training.objective import mask
from pocket_training.recipe import Recipe
from pocket_training.variants import variant


@dataclass(frozen=True)
class Effort:
    """What some pools took and brought."""

    loss: float
    """Mean over the steps."""
    steps: int
    sequences: int
    seconds: float
    """Computing time."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Trainer:
    """A learner with its source of problems."""

    def __init__(self, recipe: Recipe, threads: int) -> None:
        torch.set_num_threads(threads)
        self.recipe, self.threads = recipe, threads
        self.learner = Learner(recipe.seed, variant(recipe.model), compiled=recipe.compiled)
        self.subject = self.learner.variant.subject

    def train(self, pools: Sequence[int], step: int, done: float) -> Effort:
        """Learn from pools by number; `step` are steps before, `done` the share of the time spent."""
        started, first, total, sequences = process_time(), step, 0.0, 0
        recipe = self.recipe
        hole = self.subject.mask
        for number in pools:
            for index, batch in enumerate(self.subject.pool(recipe, number, done)):
                source = torch.Generator().manual_seed(_seed(recipe.seed, number, index))
                masked = mask(batch, hole, source)
                total += self.learner.step(masked, self._rate(step, done))
                step += 1
                sequences += len(batch.tokens)
        seconds = (process_time() - started) / self.threads
        return Effort(total / (step - first), step - first, sequences, seconds)

    def _rate(self, step: int, done: float) -> float:
        recipe = self.recipe
        falling = min(1.0, max(0.02, (1.0 - done) / recipe.cooldown))
        return recipe.rate * min(1.0, (step + 1) / recipe.warmup) * falling


def _seed(seed: int, pool: int, batch: int) -> int:
    """Of the masks of one batch, whoever trains on it."""
    return (seed * 1_000_003 + pool) * 1_009 + batch
