"""Processes that train side by side: the average of what each would have learned alone."""

import io
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from archer.errors import ArcherError
from pocket_training.trainer import Recipe, Trainer
from pocket_training.worker import work
from pocket_training.workers import Workers, averaged

RECIPE = Recipe(workers=2, round_pools=2, warmup=1, pool=8)


def ordered(folder: Path, pools: list[int]) -> str:
    order = {"state": str(folder / "state"), "result": str(folder / "result"), "pools": pools}
    return json.dumps(order | {"step": 0, "done": 0.5}) + "\n"


def test_a_worker_does_what_a_drill_does(tmp_path: Path) -> None:
    trainer = Trainer(RECIPE, 1)
    save_file(trainer.learner.tensors(), tmp_path / "state")
    answers = io.StringIO()
    work(Trainer(RECIPE, 1), io.StringIO(ordered(tmp_path, [3, 4])), answers)
    expected = trainer.train([3, 4], 0, 0.5)
    found = json.loads(answers.getvalue())
    assert found["loss"] == expected.loss
    assert found["sequences"] == expected.sequences == 16
    stored = load_file(tmp_path / "result")
    assert all(torch.equal(stored[name], each) for name, each in trainer.learner.tensors().items())


class Inline:
    """A worker process that is none: it answers when it is listened to."""

    def __init__(self, command: list[str], **_: object) -> None:
        recipe = Recipe(**json.loads(command[3]))
        assert asdict(recipe) == asdict(RECIPE)
        self.trainer = Trainer(recipe, int(command[4]))
        self.stdin = io.StringIO()
        self.stdout = self

    def readline(self) -> str:
        answers = io.StringIO()
        self.stdin.seek(0)
        work(self.trainer, self.stdin, answers)
        self.stdin.truncate(0)
        return answers.getvalue()

    def kill(self) -> None: ...
    def wait(self) -> int:
        return 0

    def close(self) -> None: ...


def test_a_round_is_the_average_of_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", Inline)
    trainer = Trainer(RECIPE, 1)
    states = []
    for pools in ([6, 7], [8, 9]):
        alone = Trainer(RECIPE, 1)
        alone.train(pools, 0, 0.5)
        states.append(alone.learner.tensors())
    group = Workers(RECIPE, 1)
    effort = group.round(trainer.learner, 6, 0, 0.5)
    group.close()
    assert effort.sequences == 32
    expected = averaged(states)
    found = trainer.learner.tensors()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert not torch.equal(expected["weight.embedding"], states[0]["weight.embedding"])


def test_counts_are_averaged_to_counts() -> None:
    states = [{"steps": torch.tensor(n), "w": torch.full((2,), float(n))} for n in (2, 5)]
    mean = averaged(states)
    assert mean["steps"].item() == 4
    assert mean["steps"].dtype == torch.int64
    assert mean["w"].tolist() == [3.5, 3.5]


def test_a_process_that_dies_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    group = Workers(RECIPE, 1)
    with pytest.raises(ArcherError, match="ended with exit code 1"):
        group.round(Trainer(RECIPE, 1).learner, 0, 0, 0.0)
    group.close()


def test_real_processes_train() -> None:
    trainer, group = Trainer(RECIPE, 1), Workers(RECIPE, 1)
    before = trainer.learner.tensors()["weight.embedding"].clone()
    effort = group.round(trainer.learner, 0, 0, 0.5)
    group.close()
    assert effort.sequences == 32
    assert not torch.equal(trainer.learner.tensors()["weight.embedding"], before)
