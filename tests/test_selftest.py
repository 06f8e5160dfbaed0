"""`archer doctor --selftest`: it passes on a sound machine, and one fault injected per check is found."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import archer.bench.step
from archer import selftest
from archer.cli import main
from archer.completion import Completion
from archer.engine.memory import Memory
from archer.model import Model, load
from archer.selftest import Finding, Plan, verdict

CHECKS = ["recorded answers", "cached equals full", "batch equals singles", "steps"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "ANSWERS", 2)
    monkeypatch.setattr(selftest, "STEP_PROMPT", 64)
    monkeypatch.setattr(selftest, "STEP_RESPONSE", 16)
    monkeypatch.setattr(selftest, "STEP_ROUNDS", 1)


@pytest.fixture
def damaged() -> Model:
    """Random numbers on the weights of one layer."""
    model = load("pocket", device="cpu")
    weight = model.network.layer(0).down
    assert weight is not None
    weight.data += 0.5 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    return model


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_sound_machine_passes(
    dtype: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "attached.json"
    options = ["--dtype", dtype, "--device", "cpu", "--shape", "small", "--output", str(file)]
    assert main(["doctor", "--selftest", *options]) == 0
    out = capsys.readouterr().out
    assert out.count("ok    ") == len(CHECKS)
    assert "passed: all 4 checks." in out
    found = json.loads(file.read_text())
    assert [each["name"] for each in found["findings"]] == CHECKS
    assert found["machine"]["dtype"] == dtype


def test_other_weights_are_found(damaged: Model) -> None:
    assert not selftest.recorded_answers(damaged).passed
    assert not selftest.compiled_equals_plain(load("pocket", device="cpu"), damaged).passed


def test_a_cache_that_lost_something_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = Memory.clone

    def lossy(memory: Memory) -> Memory:
        cloned = sound(memory)
        for each in dataclasses.fields(cloned.store):
            value = getattr(cloned.store, each.name)
            for part in value if isinstance(value, list | tuple) else [value]:
                if isinstance(part, torch.Tensor):
                    part[..., :40, :] = 0
        return cloned

    model = load("pocket", device="cpu")
    assert selftest.cached_equals_full(model).passed
    monkeypatch.setattr(Memory, "clone", lossy)
    assert not selftest.cached_equals_full(model).passed


def test_neighbours_that_matter_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = Model.generate

    def swapped(model: Model, prompts: Any, *args: Any, **options: Any) -> list[Completion]:
        return sound(model, prompts, *args, **options)[::-1]

    monkeypatch.setattr(Model, "generate", swapped)
    assert not selftest.batch_equals_singles(load("pocket", device="cpu")).passed


def test_cached_steps_that_are_no_faster_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = archer.bench.step.measure

    def slow(*args: Any, **options: Any) -> Any:
        for row in sound(*args, **options):
            yield dataclasses.replace(row, figures=dataclasses.replace(row.figures, speedup=0.9))

    monkeypatch.setattr(archer.bench.step, "measure", slow)
    assert not selftest.steps(Plan("cpu", "float32", shape="small")).passed


def test_a_check_that_raises_fails_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(model: Model) -> Finding:
        raise RuntimeError("no kernel image")

    monkeypatch.setattr(selftest, "recorded_answers", broken)
    file = tmp_path / "attached.json"
    options = ["--device", "cpu", "--shape", "small", "--output", str(file), "--json"]
    assert main(["doctor", "--selftest", *options]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [each["passed"] for each in found["findings"]] == [False, True, True, True]
    assert found["findings"][0]["told"] == "raised RuntimeError: no kernel image"
    assert found["verdict"] == verdict([Finding("recorded answers", False, "")])
    assert json.loads(file.read_text()) == found


def test_an_unknown_shape_is_refused_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--selftest", "--shape", "gpt-9"]) == 2
    assert "no shape 'gpt-9'" in capsys.readouterr().err
