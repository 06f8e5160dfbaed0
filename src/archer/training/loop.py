"""The training run: resume, train for some minutes, leave checkpoints and a log behind.

Nothing random is carried over: the mask of a step and the rows of a pool follow from the seed and their
numbers. Checkpoints are written between pools, so a resumed run sees what an unbroken one would have seen.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time
from typing import Any

import torch

from archer.errors import BadRequest
from archer.pocket import frozen
from archer.pocket import tokenizer as vocabulary
from archer.training import checkpoint
from archer.training.checkpoint import Progress
from archer.training.learner import Learner
from archer.training.objective import mask
from archer.training.samples import Samples
from archer.training.watch import score


@dataclass(frozen=True)
class Recipe:
    """The dials of a run."""

    seed: int = 0
    rate: float = 2e-3
    """Peak learning rate."""
    warmup: int = 200
    """Steps until the peak is reached."""
    cooldown: float = 0.35
    """Share of the minutes at the end in which the rate falls to almost nothing."""
    easy_until: float = 0.3
    """Share of the minutes in which easy problems are preferred, less and less."""
    long_from: float = 0.8
    """Share of the minutes after which long prompts are mixed in."""
    long_share: float = 0.5
    """Share of the rows that are long from then on."""
    save_every: float = 5.0
    """Minutes between checkpoints."""
    watch_every: float = 15.0
    """Minutes between measurements of Pass@1 on dev problems; 0 never measures."""
    watched: int = 60
    compiled: bool = False
    """Compile the pass; a quarter faster, but it needs a C++ compiler."""


def train(
    out: Path,
    minutes: float,
    threads: int = 1,
    recipe: Recipe | None = None,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> Path:
    """Train until `minutes` have been spent over all runs in `out`; return the last checkpoint.

    Minutes of computing per thread are counted: waiting for a busy machine or a pause costs nothing.

    `report` receives every line of the log, which is also appended to `out/log.jsonl`.
    """
    recipe = recipe or Recipe()
    if not minutes > 0:
        raise BadRequest(f"{minutes:g} minutes are no time to train. Give a number above 0.")
    if threads < 1:
        raise BadRequest(f"{threads} threads cannot train. Give a number of at least 1.")
    torch.set_num_threads(threads)
    run = _Run(out, minutes, threads, recipe, report)
    if run.progress.minutes >= minutes:
        raise BadRequest(
            f"The run in {out} has already had {run.progress.minutes:.1f} minutes. "
            "Give a larger number of minutes to continue it."
        )
    return run.train()


class _Run:
    """One run in one folder."""

    def __init__(
        self,
        out: Path,
        minutes: float,
        threads: int,
        recipe: Recipe,
        report: Callable[[dict[str, Any]], None] | None,
    ) -> None:
        self.out, self.minutes, self.threads = out, minutes, threads
        self.recipe, self.report = recipe, report
        self.tokenizer = vocabulary.build()
        self.mask = vocabulary.token_id(vocabulary.MASK)
        self.samples = Samples(self.tokenizer, recipe.seed)
        self.learner = Learner(vocabulary.vocabulary(), recipe.seed, compiled=recipe.compiled)
        self.progress = Progress(recipe.seed, 0, 0, 0, 0.0)
        self.problems = frozen.load("dev")[: recipe.watched] if recipe.watch_every else []
        found = checkpoint.existing(out)
        if found:
            self.progress, tensors = checkpoint.load(found[-1])
            self.learner.restore(tensors)

    def train(self) -> Path:
        """Pool after pool, until the time is up."""
        saved = watched = self.progress.minutes
        path = self._save()
        while self.progress.minutes < self.minutes:
            self._log(**self._pool())
            now = self.progress.minutes
            if now - saved >= self.recipe.save_every or now >= self.minutes:
                path, saved = self._save(), now
            if self.recipe.watch_every and now - watched >= self.recipe.watch_every:
                self._watch()
                watched = now
        return path

    def _pool(self) -> dict[str, Any]:
        """Train on one pool and describe it."""
        started = process_time()
        done, recipe = self.progress.minutes / self.minutes, self.recipe
        share = recipe.long_share if done >= recipe.long_from else 0.0
        candidates = 1 + math.ceil(3 * max(0.0, 1.0 - done / recipe.easy_until))
        batches = self.samples.pool(self.progress.pool, share, candidates)
        total, step = 0.0, self.progress.step
        for batch in batches:
            source = torch.Generator().manual_seed(recipe.seed * 1_000_003 + step)
            masked = mask(batch, self.mask, source)
            total += self.learner.step(masked, self._rate(step, done))
            step += 1
        seconds = (process_time() - started) / self.threads
        sequences = sum(len(batch.tokens) for batch in batches)
        self.progress = replace(
            self.progress,
            step=step,
            pool=self.progress.pool + 1,
            sequences=self.progress.sequences + sequences,
            minutes=self.progress.minutes + seconds / 60,
        )
        return {"loss": round(total / len(batches), 5), "speed": round(sequences / seconds, 1)}

    def _rate(self, step: int, done: float) -> float:
        recipe = self.recipe
        falling = min(1.0, max(0.02, (1.0 - done) / recipe.cooldown))
        return recipe.rate * min(1.0, (step + 1) / recipe.warmup) * falling

    def _save(self) -> Path:
        return checkpoint.save(self.out, self.progress, self.learner.tensors())

    def _watch(self) -> None:
        measured = score(self.learner.average, self.tokenizer, self.problems)
        self._log(base=measured.base, extended=measured.extended, failed=measured.failed)
        shown = [
            {"name": task.name, "statement": task.statement, "reference": task.body, "body": body}
            for task, body in zip(self.problems, measured.bodies, strict=True)
        ]
        text = "\n".join(json.dumps(item) for item in shown)
        (self.out / "dev.jsonl").write_text(text + "\n", encoding="utf-8")

    def _log(self, **facts: Any) -> None:
        now = self.progress
        line = {
            "minutes": round(now.minutes, 2),
            "step": now.step,
            "sequences": now.sequences,
            **facts,
        }
        with (self.out / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if self.report is not None:
            self.report(line)
