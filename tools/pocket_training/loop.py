"""The training run: resume, train for some minutes, leave checkpoints and a log behind.

Nothing random is carried over: the masks of a batch and the rows of a pool follow from the seed and their
numbers. Checkpoints are written between rounds, so a resumed run sees what an unbroken one would have seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from archer.errors import BadRequest
from pocket_training import checkpoint
from pocket_training.checkpoint import Progress
from pocket_training.recipe import Recipe
from pocket_training.trainer import Effort, Trainer
from pocket_training.workers import Workers

MOST_THREADS = 512


def train(
    out: Path,
    minutes: float,
    threads: int = 1,
    recipe: Recipe | None = None,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> Path:
    """Train until `minutes` have been spent over all runs in `out`; return the last checkpoint.

    Minutes of computing per thread and process are counted: waiting for a busy machine or a pause costs
    nothing. `report` receives every line of the log, which is also appended to `out/log.jsonl`.
    """
    recipe = recipe or Recipe()
    if not minutes > 0:
        raise BadRequest(f"{minutes:g} minutes are no time to train. Give a number above 0.")
    if not 1 <= threads <= MOST_THREADS:
        raise BadRequest(f"{threads} threads cannot train. Give a number from 1 to {MOST_THREADS}.")
    if recipe.workers < 1:
        raise BadRequest(f"{recipe.workers} processes cannot train. Give a number of at least 1.")
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
        self.trainer = Trainer(recipe, threads)
        self.progress = Progress(recipe.seed, 0, 0, 0, 0.0, recipe.model)
        self.workers: Workers | None = None
        checkpoints = checkpoint.existing(out)
        if checkpoints:
            self.progress, tensors = checkpoint.load(checkpoints[-1])
            if self.progress.model != recipe.model:
                raise BadRequest(
                    f"The run in {out} trains {self.progress.model}, not {recipe.model}. "
                    "Name another folder."
                )
            self.trainer.learner.restore(tensors)

    def train(self) -> Path:
        """Round after round, until the time is up."""
        saved = watched = self.progress.minutes
        path = self._save()
        if self.recipe.workers > 1:
            self.workers = Workers(self.recipe, self.threads)
        try:
            while self.progress.minutes < self.minutes:
                self._log(**self._round())
                now = self.progress.minutes
                if now - saved >= self.recipe.save_every or now >= self.minutes:
                    path, saved = self._save(), now
                if self.recipe.watch_every and now - watched >= self.recipe.watch_every:
                    self._watch()
                    watched = now
        finally:
            if self.workers is not None:
                self.workers.close()
        return path

    def _round(self) -> dict[str, Any]:
        """Train on one pool, or each worker on several, and describe it."""
        done, now = self.progress.minutes / self.minutes, self.progress
        if self.workers is None:
            pools, effort = 1, self.trainer.train([now.pool], now.step, done)
        else:
            pools = self.recipe.workers * self.recipe.round_pools
            effort = self.workers.round(self.trainer.learner, now.pool, now.step, done)
        self.progress = _advanced(now, pools, effort)
        speed = effort.sequences / effort.seconds
        return {"loss": round(effort.loss, 5), "speed": round(speed, 1)}

    def _save(self) -> Path:
        return checkpoint.save(self.out, self.progress, self.trainer.learner.tensors())

    def _watch(self) -> None:
        trainer = self.trainer
        measured = trainer.subject.watch(trainer.learner.average, self.recipe.watched)
        self._log(**measured.scores)
        text = "\n".join(map(json.dumps, measured.answers))
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


def _advanced(now: Progress, pools: int, effort: Effort) -> Progress:
    return replace(
        now,
        step=now.step + effort.steps,
        pool=now.pool + pools,
        sequences=now.sequences + effort.sequences,
        minutes=now.minutes + effort.seconds / 60,
    )
