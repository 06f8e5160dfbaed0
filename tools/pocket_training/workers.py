"""Several processes that train side by side from one state; after each round their states are averaged.

On a machine with two cores this is faster than two threads in one process, because matrices this small do
not fill two cores together.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from archer.errors import ArcherError
from pocket_training.learner import Learner
from pocket_training.recipe import Recipe
from pocket_training.trainer import Effort

TOOLS = Path(__file__).resolve().parent.parent
"""Where this package lies: it is not installed."""


class Workers:
    """Starts the processes; `round` sends each of them its part."""

    def __init__(self, recipe: Recipe, threads: int) -> None:
        self._recipe = recipe
        self._folder = TemporaryDirectory(prefix="archer-training-")
        command = [sys.executable, "-m", "pocket_training.worker"]
        known = (str(TOOLS), os.environ.get("PYTHONPATH"))
        variables = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, known))}
        arguments = [json.dumps(asdict(recipe)), str(threads)]
        self._processes = [
            subprocess.Popen(
                [*command, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=variables,
            )
            for _ in range(recipe.workers)
        ]

    def round(self, learner: Learner, first_pool: int, step: int, done: float) -> Effort:
        """Every process trains on pools of its own; the learner takes over their average."""
        folder, size = Path(self._folder.name), self._recipe.round_pools
        save_file(learner.tensors(), folder / "state.safetensors")
        for number, process in enumerate(self._processes):
            first = first_pool + number * size
            order = {
                "state": str(folder / "state.safetensors"),
                "result": str(folder / f"{number}.safetensors"),
                "pools": list(range(first, first + size)),
                "step": step,
                "done": done,
            }
            _say(process, json.dumps(order))
        efforts = [_heard(process) for process in self._processes]
        results = [load_file(folder / f"{n}.safetensors") for n in range(len(efforts))]
        learner.restore(averaged(results))
        return _together(efforts)

    def close(self) -> None:
        """End the processes; nothing of a round that was under way is kept."""
        for process in self._processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()
        self._folder.cleanup()


def averaged(states: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of every tensor; counts are rounded."""
    mean: dict[str, Tensor] = {}
    for name, first in states[0].items():
        stacked = torch.stack([state[name] for state in states])
        if first.is_floating_point():
            mean[name] = stacked.mean(0)
        else:
            mean[name] = stacked.double().mean(0).round().to(first.dtype)
    return mean


def _together(efforts: Sequence[Effort]) -> Effort:
    """Steps and time of one process on average, sequences of all."""
    count = len(efforts)
    return Effort(
        loss=sum(each.loss for each in efforts) / count,
        steps=round(sum(each.steps for each in efforts) / count),
        sequences=sum(each.sequences for each in efforts),
        seconds=sum(each.seconds for each in efforts) / count,
    )


def _say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    except BrokenPipeError as error:
        raise _lost(process) from error


def _heard(process: subprocess.Popen[str]) -> Effort:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise _lost(process)
    return Effort(**json.loads(line))


def _lost(process: subprocess.Popen[str]) -> ArcherError:
    return ArcherError(
        f"A training process ended with exit code {process.wait()}; its message stands above. Start "
        "the same command again to go on from the last checkpoint."
    )
