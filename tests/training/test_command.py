"""`python -m pocket_training`, in process: a short run, its export, and what is refused."""

from functools import partialmethod
from pathlib import Path

import pytest

import archer
from pocket_training import samples, trainer
from pocket_training.__main__ import run as main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools of eight sequences, each worth half a minute; dev problems are watched elsewhere."""
    monkeypatch.setattr(trainer.Recipe, "__init__", partialmethod(trainer.Recipe.__init__, pool=8))
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
