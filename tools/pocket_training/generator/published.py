"""The published sets and their worked examples, made anew.

`python -m pocket_training.generator.published FOLDER` writes them into a folder.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from random import Random

from archer.pocket import frozen, prompts
from archer.pocket.gaps import FILE
from archer.pocket.grids import HELD
from archer.pocket.problems import Problem
from pocket_training.generator.gaps import cuts
from pocket_training.generator.grids import puzzle_set
from pocket_training.generator.problems import HOMES, VERSION, distinct, problem

EXAMPLES = 3
LONGEST_EXAMPLE = 360
"""Characters of a worked example at most, so that long prompts are of similar length."""


def problem_set(split: frozen.HeldOut) -> list[Problem]:
    """The problems of a set.

    Those for confirmations have structures that are held out from training like those of `test` or `dev`,
    and are in no earlier set.
    """
    home = HOMES.get(split)
    known = () if home is None else {task.structure for task in frozen.load(home)}
    return list(distinct(split, frozen.SIZES[split], known))


def worked_examples(task: Problem, number: int = EXAMPLES) -> list[str]:
    """Solved problems of the train split, of other structures than the task; a function of the task alone."""
    rng = Random(f"pocket-{VERSION}-examples-{task.name}")
    chosen: list[str] = []
    while len(chosen) < number:
        example = problem("train", rng.randrange(10_000_000, 20_000_000), hidden=False)
        text = prompts.worked(example)
        if example.structure != task.structure and len(text) <= LONGEST_EXAMPLE:
            chosen.append(text)
    return chosen


def write(folder: Path) -> None:
    """All sets and gaps, one JSON object per line, and the worked examples by the names of their problems."""
    for split in frozen.SIZES:
        tasks = problem_set(split)
        lines = "".join(json.dumps(task.record()) + "\n" for task in tasks)
        (folder / f"{split}.jsonl").write_text(lines, encoding="ascii")
        examples = json.dumps({task.name: worked_examples(task) for task in tasks}, indent=0)
        packed = gzip.compress(examples.encode("ascii"), mtime=0)
        (folder / f"examples-{split}.json.gz").write_bytes(packed)
    gaps = "".join(json.dumps(cut.record()) + "\n" for cut in cuts(frozen.load("dev")))
    (folder / FILE).write_text(gaps, encoding="ascii")
    for held in HELD:
        lines = "".join(json.dumps(each.record()) + "\n" for each in puzzle_set(held))
        (folder / f"sudoku-{held}.jsonl").write_text(lines, encoding="ascii")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
