"""Runs: resumed like unbroken ones, refused when senseless, never losing an earlier checkpoint."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import archer
from archer.errors import BadRequest
from archer.pocket import tokenizer as vocabulary
from pocket_training import checkpoint, trainer, watch
from pocket_training.checkpoint import BadCheckpoint, Progress
from pocket_training.curve import curve
from pocket_training.export import export
from pocket_training.learner import Learner
from pocket_training.loop import train
from pocket_training.trainer import Recipe

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
    learner = Learner(vocabulary.vocabulary(), 0)
    checkpoint.save(tmp_path / "run", PROGRESS, learner.tensors())
    export(tmp_path / "run", tmp_path / "model")
    model = archer.load(str(tmp_path / "model"))
    ours, theirs = learner.average, model.network
    assert torch.equal(theirs.embedding, ours.embedding.half().float())
    assert torch.equal(theirs.layer(3).qkv, ours.layer(3).qkv.half().float())
    assert theirs.shape == ours.shape
    assert "99 sequences" in (tmp_path / "model" / "README.md").read_text()


def test_an_export_does_not_overwrite(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, PROGRESS, Learner(vocabulary.vocabulary(), 0).tensors())
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
