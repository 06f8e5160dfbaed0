"""One of several processes that train side by side: `python -m pocket_training.worker RECIPE THREADS`.

Reads one JSON object per line: from which state, on which pools, and where to put the new state. Answers
with one line each. Tensors travel as safetensors files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import IO

from safetensors.torch import load_file, save_file

from pocket_training.recipe import Recipe
from pocket_training.trainer import Trainer


def work(trainer: Trainer, orders: IO[str], answers: IO[str]) -> None:
    """Carry out orders until there are no more."""
    for line in orders:
        order = json.loads(line)
        trainer.learner.restore(load_file(Path(order["state"])))
        effort = trainer.train(order["pools"], order["step"], order["done"])
        save_file(trainer.learner.tensors(), Path(order["result"]))
        answers.write(json.dumps(effort.as_dict()) + "\n")
        answers.flush()


if __name__ == "__main__":
    work(Trainer(Recipe(**json.loads(sys.argv[1])), int(sys.argv[2])), sys.stdin, sys.stdout)
