"""Training on some pools: what one process does between two points at which progress is recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import process_time
from typing import Any

import torch

from archer.pocket import tokenizer as vocabulary
from pocket_training.learner import Learner
from pocket_training.objective import mask
from pocket_training.samples import POOL, Samples
from pocket_training.variants import variant


@dataclass(frozen=True)
class Recipe:
    """The dials of a run."""

    model: str = "pocket"
    """Which of the variants is trained."""
    seed: int = 0
    rate: float = 3e-3
    """Peak learning rate."""
    warmup: int = 200
    """Steps until the peak is reached."""
    cooldown: float = 0.35
    """Share of the minutes at the end in which the rate falls to almost nothing."""
    easy_until: float = 0.3
    """Share of the minutes in which easy problems are preferred, less and less."""
    long_from: float = 0.68
    """Share of the minutes after which long prompts are mixed in."""
    long_share: float = 0.5
    """Share of the rows that are long from then on."""
    pool: int = POOL
    """Sequences drawn together; a quarter of it where long prompts are among them."""
    save_every: float = 5.0
    """Minutes between checkpoints."""
    watch_every: float = 15.0
    """Minutes between measurements of Pass@1 on dev problems; 0 never measures."""
    watched: int = 60
    compiled: bool = False
    """Compile the pass; a quarter faster, but it needs a C++ compiler."""
    workers: int = 1
    """Processes that train side by side on pools of their own; their weights are averaged each round."""
    round_pools: int = 8
    """Pools of each process in a round, where there are several."""


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
        self.tokenizer = vocabulary.build()
        self.learner = Learner(
            vocabulary.vocabulary(),
            recipe.seed,
            variant=variant(recipe.model),
            compiled=recipe.compiled,
        )
        self._samples = Samples(self.tokenizer, recipe.seed, recipe.pool)
        self._mask = vocabulary.token_id(vocabulary.MASK)

    def train(self, pools: Sequence[int], step: int, done: float) -> Effort:
        """Learn from pools by number; `step` are steps before, `done` the share of the time spent."""
        started, first, total, sequences = process_time(), step, 0.0, 0
        recipe = self.recipe
        share = recipe.long_share if done >= recipe.long_from else 0.0
        candidates = 1 + math.ceil(3 * max(0.0, 1.0 - done / recipe.easy_until))
        for number in pools:
            for index, batch in enumerate(self._samples.pool(number, share, candidates)):
                source = torch.Generator().manual_seed(_seed(recipe.seed, number, index))
                total += self.learner.step(mask(batch, self._mask, source), self._rate(step, done))
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
