"""Runs and their command: resumed like unbroken ones, shared by processes, refused when senseless."""

import io
import json
import subprocess
import sys
from dataclasses import asdict
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import archer
from archer.errors import ArcherError, BadRequest
from pocket_training import checkpoint, samples, trainer, watch
from pocket_training.__main__ import run as main
from pocket_training.checkpoint import BadCheckpoint, Progress
from pocket_training.curve import curve
from pocket_training.export import export
from pocket_training.learner import Learner
from pocket_training.loop import train
from pocket_training.recipe import Recipe
from pocket_training.trainer import Trainer
from pocket_training.worker import work
from pocket_training.workers import Workers, averaged

QUICK = Recipe(pool=8, watch_every=0.0, save_every=0.0)
PROGRESS = Progress(seed=0, step=7, pool=2, sequences=99, minutes=1.5)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that gives every pool a minute."""
    ticks = iter(range(10_000))
    monkeypatch.setattr(trainer, "process_time", lambda: 60.0 * next(ticks))


def tensors_of(path: Path) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = load_file(path / "state.safetensors")
    return tensors


@pytest.mark.usefixtures("small")
def test_a_resumed_run_equals_an_unbroken_one(tmp_path: Path) -> None:
    recipe = Recipe(pool=8, watch_every=0.0, save_every=0.0, cooldown=1e-9, long_from=1.0)
    whole = train(tmp_path / "whole", 2, recipe=recipe)
    train(tmp_path / "parts", 1, recipe=recipe)
    parts = train(tmp_path / "parts", 2, recipe=recipe)
    assert whole.name == parts.name
    expected, found = tensors_of(whole), tensors_of(parts)
    assert expected.keys() == found.keys()
    assert all(torch.equal(tensor, found[name]) for name, tensor in expected.items())


@pytest.mark.usefixtures("small")
def test_the_log_tells_loss_and_speed(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = []
    train(tmp_path, 2, recipe=QUICK, report=lines.append)
    stored = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert stored == lines
    assert [line["minutes"] for line in lines] == [1.0, 2.0]
    assert all(line["loss"] > 0 and line["speed"] > 0 for line in lines)


@pytest.mark.usefixtures("small")
def test_dev_problems_are_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "RESPONSE", 4)
    lines: list[dict[str, Any]] = []
    train(tmp_path, 1, recipe=Recipe(pool=8, watch_every=1.0, watched=2), report=lines.append)
    assert lines[-1]["base"] == lines[-1]["extended"] == 0.0
    assert sum(lines[-1]["failed"].values()) == 2
    assert len((tmp_path / "dev.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("minutes", [0.0, -1.0, float("nan")])
def test_no_time_is_refused_before_work(tmp_path: Path, minutes: float) -> None:
    with pytest.raises(BadRequest, match="no time to train"):
        train(tmp_path / "new", minutes)
    assert not (tmp_path / "new").exists()


def test_no_processes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="0 processes"):
        train(tmp_path, 1, recipe=Recipe(workers=0))


@pytest.mark.usefixtures("small")
def test_a_killed_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    def killed(line: dict[str, Any]) -> None:
        if line["minutes"] == 2.0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, 3, recipe=QUICK, report=killed)
    progress, _ = checkpoint.load(checkpoint.existing(tmp_path)[-1])
    assert progress.minutes == 1.0
    lines: list[dict[str, Any]] = []
    train(tmp_path, 3, recipe=QUICK, report=lines.append)
    assert [line["minutes"] for line in lines] == [2.0, 3.0]


def test_the_two_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        checkpoint.save(tmp_path, Progress(0, step, 0, 0, 0.0), {"w": torch.ones(2)})
    assert [path.name for path in checkpoint.existing(tmp_path)] == [
        "step-00000002",
        "step-00000003",
    ]


@pytest.mark.parametrize("spoil", ["tensors", "state", "missing", "foreign"])
def test_a_damaged_checkpoint_is_refused_by_name(tmp_path: Path, spoil: str) -> None:
    path = checkpoint.save(tmp_path, PROGRESS, {"w": torch.ones(2)})
    assert checkpoint.load(path)[0] == PROGRESS
    if spoil == "tensors":
        file = path / "state.safetensors"
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    elif spoil == "state":
        (path / "state.json").write_text("{")
    elif spoil == "missing":
        (path / "state.safetensors").unlink()
    else:
        (path / "state.json").write_text('{"digest": "", "epoch": 3}')
    with pytest.raises(BadCheckpoint, match=r"step-00000007 cannot be used.*Delete that folder"):
        checkpoint.load(path)


def test_a_full_disk_leaves_the_earlier_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = checkpoint.save(tmp_path, PROGRESS, {"w": torch.ones(2)})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(BadCheckpoint, match=r"No space left.*Earlier checkpoints are intact"):
        checkpoint.save(tmp_path, Progress(0, 8, 2, 99, 1.5), {"w": torch.ones(2)})
    assert list(tmp_path.iterdir()) == [earlier]
    assert checkpoint.load(earlier)[0] == PROGRESS


def test_the_exported_folder_is_an_ordinary_model(tmp_path: Path) -> None:
    learner = Learner(0)
    checkpoint.save(tmp_path / "run", PROGRESS, learner.tensors())
    export(tmp_path / "run", tmp_path / "model")
    model = archer.load(str(tmp_path / "model"))
    ours, theirs = learner.average, model.network
    assert torch.equal(theirs.embedding, ours.embedding.half().float())
    assert torch.equal(theirs.layer(3).qkv, ours.layer(3).qkv.half().float())
    assert theirs.shape == ours.shape
    assert "99 sequences" in (tmp_path / "model" / "README.md").read_text()


def test_an_export_does_not_overwrite(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, PROGRESS, Learner(0).tensors())
    with pytest.raises(BadRequest, match="is not empty"):
        export(tmp_path, tmp_path)


@pytest.mark.usefixtures("small")
def test_a_curve_tells_losses_and_scores_by_sequences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "RESPONSE", 4)
    train(tmp_path, 2, recipe=Recipe(pool=8, save_every=0.0, watch_every=2.0, watched=1))
    lost = {"minutes": 3.0, "step": 9, "sequences": 10_000, "loss": 9.0, "speed": 1.0}
    with (tmp_path / "log.jsonl").open("a") as log:
        log.write(json.dumps(lost) + "\n")
    found = curve(tmp_path)
    assert (found["model"], found["minutes"]) == ("pocket", 2.0)
    assert [sequences for sequences, _ in found["loss"]] == [8, 16]
    assert found["dev"] == [[16, 0.0, 0.0]]
    assert found["sequences"] == 16


Capture = pytest.CaptureFixture[str]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools of eight sequences, each worth half a minute; dev problems are watched elsewhere."""
    monkeypatch.setattr(Recipe, "__init__", partialmethod(Recipe.__init__, pool=8))
    ticks = iter(range(10_000))
    monkeypatch.setattr(trainer, "process_time", lambda: 30.0 * next(ticks))


@pytest.mark.usefixtures("quick")
def test_a_trained_model_can_be_loaded(tmp_path: Path, capsys: Capture) -> None:
    out, model = tmp_path / "run", tmp_path / "model"
    asked = ["pocket", "--out", str(out), "--minutes", "1", "--export", str(model)]
    assert main(asked) == 0
    shown = capsys.readouterr()
    assert "0.5 min" in shown.err
    assert "loss" in shown.err
    assert str(model) in shown.out
    assert archer.load(model).folder.length == samples.RESPONSE
    assert main(asked) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(asked[:-2]) == 2
    assert "has already had 1.0 minutes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["gpt"], "There is no recipe for 'gpt', only for pocket"),
        (["pocket", "--minutes", "0"], "no time to train"),
        (["pocket", "--threads", "0"], "0 threads"),
    ],
)
def test_senseless_trainings_are_refused(
    tmp_path: Path, capsys: Capture, arguments: list[str], sentence: str
) -> None:
    assert main([*arguments, "--out", str(tmp_path / "run")]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_real_processes_train() -> None:
    trainer, group = Trainer(RECIPE, 1), Workers(RECIPE, 1)
    before = trainer.learner.tensors()["weight.embedding"].clone()
    effort = group.round(trainer.learner, 0, 0, 0.5)
    group.close()
    assert effort.sequences == 32
    assert not torch.equal(trainer.learner.tensors()["weight.embedding"], before)
