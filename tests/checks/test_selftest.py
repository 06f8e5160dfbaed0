"""`archer doctor --selftest`: it passes on a sound machine, and one fault injected per check is found."""

import dataclasses
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import archer.bench.step
import archer.machine.description
from archer.bench import repeating
from archer.bench.repeating import interleaved
from archer.checks import selftest
from archer.checks.selftest import Finding, SelftestPlan, verdict
from archer.cli import main
from archer.costs.roofline import named
from archer.model import Model, load
from archer.passes.memory import Memory
from archer.results.completion import Completion

Capture = pytest.CaptureFixture[str]
CHECKS = ["recorded answers", "cached equals full", "batch equals singles", "steps"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "ANSWERS", 2)
    monkeypatch.setattr(selftest, "BATCH", 2)
    monkeypatch.setattr(selftest, "STEP_PROMPT", 64)
    monkeypatch.setattr(selftest, "STEP_RESPONSE", 16)
    monkeypatch.setattr(selftest, "STEP_ROUNDS", 1)


@pytest.fixture(scope="module")
def sound() -> Model:
    return load("pocket", device="cpu")


@pytest.fixture
def damaged() -> Model:
    """Random numbers on the weights of one layer."""
    model = load("pocket", device="cpu")
    weight = model.network.layer(0).down
    assert weight is not None
    weight.data += 0.5 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    return model


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_sound_machine_passes(dtype: str, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "attached.json"
    options = [
        "--dtype",
        dtype,
        "--device",
        "cpu",
        "--timing",
        "--shape",
        "small",
        "--output",
        str(file),
    ]
    assert main(["doctor", "--selftest", *options]) == 0
    out = capsys.readouterr().out
    assert out.count("ok    ") == len(CHECKS)
    assert "passed: all 4 checks." in out
    found = json.loads(file.read_text())
    assert [each["name"] for each in found["findings"]] == CHECKS
    assert found["machine"]["dtype"] == dtype


def test_other_weights_are_found(sound: Model, damaged: Model) -> None:
    assert not selftest.recorded_answers(damaged).passed
    assert not selftest.compiled_equals_plain(sound, damaged).passed


def test_weights_that_are_no_numbers_fail_every_check(sound: Model) -> None:
    """Two errors are not two equal answers, and a comparison of nothing is none."""
    broken = load("pocket", device="cpu")
    weight = broken.network.layer(0).down
    assert weight is not None
    weight.data[:] = float("nan")
    for check in (selftest.recorded_answers, selftest.batch_equals_singles):
        found = check(broken)
        assert not found.passed
        assert found.report == "0 of 2 the same, 2 ended in an error"
    assert not selftest.compiled_equals_plain(broken, broken).passed
    found = selftest.cached_equals_full(broken)
    assert not found.passed
    assert "not finite" in found.report or "NaN" in found.report


def test_a_cached_pass_that_sees_no_numbers_is_found(
    sound: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selftest, "np", NoGaps())
    found = selftest.cached_equals_full(sound)
    assert not found.passed
    assert found.report == "nothing could be compared"


class NoGaps:
    """numpy that finds no number anywhere."""

    def __getattr__(self, name: str) -> Any:
        if name == "isnan":
            return lambda values: np.ones(values.shape, dtype=bool)
        return getattr(np, name)


def test_compiled_passes_are_checked_if_asked(
    sound: Model,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    """The passes of the quick suite are plain; the slow one compiles them."""
    only(monkeypatch, "compiled_equals_plain")
    monkeypatch.setattr(selftest, "_compiled", lambda plan: sound)
    assert "compiled equals plain" in passed(tmp_path, "--compile", capsys=capsys)


@pytest.mark.slow
def test_compiled_passes_of_a_sound_model_pass(tmp_path: Path, capsys: Capture) -> None:
    assert "compiled equals plain" in passed(tmp_path, "--compile", capsys=capsys)


@pytest.mark.slow
def test_steps_at_the_published_shape() -> None:
    """Six gigabytes of random weights; the quick suite runs the small shape."""
    found = selftest.steps(SelftestPlan("cpu", "float32"))
    assert found.report.startswith("llada-8b, 2 layers, 1 round: full ")
    assert found.passed


def only(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Every other check passes without a look."""
    for other in ("recorded_answers", "cached_equals_full", "batch_equals_singles", "steps"):
        if other != name:
            fine = Finding(other.replace("_", " "), passed=True, report="")
            monkeypatch.setattr(selftest, other, lambda *_, fine=fine: fine)


def passed(folder: Path, *options: str, capsys: Capture) -> list[str]:
    """Names of the checks of a self-test that must pass."""
    file = folder / "attached.json"
    small = [
        "--device",
        "cpu",
        "--timing",
        "--shape",
        "small",
        "--output",
        str(file),
        "--json",
        *options,
    ]
    assert main(["doctor", "--selftest", *small]) == 0
    return [each["name"] for each in json.loads(capsys.readouterr().out)["findings"]]


@pytest.mark.parametrize(
    ("driver", "card"),
    [
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB"),
        ("NVIDIA A100-SXM4-40GB", None),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L40", None),
        ("NVIDIA H200", "H200"),
        ("NVIDIA B200", "B200"),
        ("cpu", None),
    ],
)
def test_a_card_is_known_by_what_its_driver_calls_it(driver: str, card: str | None) -> None:
    found = named(driver)
    assert (None if found is None else found.name) == card


def test_the_floor_of_a_known_card_stands_beside_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = SelftestPlan("cpu", "float32", shape="small")
    assert "limits by data sheet are only known for GPUs" in selftest.steps(plan).report
    monkeypatch.setattr(archer.machine.description, "device_name", lambda device: "NVIDIA H200")
    found = selftest.steps(plan)
    assert "by its data sheet the H200 needs at least 0." in found.report
    assert found.figures["gpu"] == "H200"


def test_rounds_go_on_until_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(repeating, "perf_counter", lambda: float(next(ticks)))
    assert len(interleaved({"a": int}, 2)["a"]) == 2
    assert 15 < len(interleaved({"a": int}, 2, seconds=20.0)["a"]) < 25


@pytest.mark.parametrize(
    "option",
    [
        "--device=nonsense",
        "--dtype=float64",
        "--compile",
        "--timing",
        "--shape=small",
        "--output=x",
    ],
)
def test_options_of_the_selftest_need_it(option: str, capsys: Capture) -> None:
    assert main(["doctor", option, "--json"]) == 2
    name = option.partition("=")[0]
    assert f"{name} is an option of the self-test: add --selftest" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_refused_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(selftest, "selftest", None)
    for target in (tmp_path, tmp_path / "nowhere" / "x.json"):
        asked = ["doctor", "--selftest", "--device", "cpu", "--output", str(target)]
        assert main(asked) == 2
        assert "cannot be written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_findings_are_not_lost_with_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def vanish(plan: SelftestPlan) -> Iterator[Finding]:
        (tmp_path / "there").rmdir()
        yield Finding("steps", passed=True, report="fine")

    (tmp_path / "there").mkdir()
    monkeypatch.setattr(selftest, "selftest", vanish)
    target = tmp_path / "there" / "x.json"
    assert main(["doctor", "--selftest", "--device", "cpu", "--output", str(target)]) == 4
    told = capsys.readouterr()
    assert "could not be written" in told.err
    assert json.loads(told.out.splitlines()[-1])["verdict"] == "passed: all 1 checks."


def test_a_cache_that_lost_something_is_found(
    sound: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = Memory.clone

    def lossy(memory: Memory) -> Memory:
        cloned = clone(memory)
        for each in dataclasses.fields(cloned.store):
            value = getattr(cloned.store, each.name)
            for part in value if isinstance(value, list | tuple) else [value]:
                if isinstance(part, torch.Tensor):
                    part[..., :40, :] = 0
        return cloned

    monkeypatch.setattr(Memory, "clone", lossy)
    assert not selftest.cached_equals_full(sound).passed


def test_neighbours_that_matter_are_found(sound: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    generate = Model.generate

    def swapped(model: Model, prompts: Any, *args: Any, **options: Any) -> list[Completion]:
        return generate(model, prompts, *args, **options)[::-1]

    monkeypatch.setattr(Model, "generate", swapped)
    assert not selftest.batch_equals_singles(sound).passed


@pytest.mark.parametrize(("speedup", "passes"), [(0.9, False), (99.0, True)])
def test_cached_steps_that_are_no_faster_are_found(
    speedup: float, passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one that is faster than counting allows go without a word."""
    sound = archer.bench.step.measure

    def other(*args: Any, **options: Any) -> Any:
        for row in sound(*args, **options):
            yield dataclasses.replace(row, speedup=speedup)

    monkeypatch.setattr(archer.bench.step, "measure", other)
    found = selftest.steps(SelftestPlan("cpu", "float32", shape="small"))
    assert found.passed is passes
    assert ("(more is noise)" in found.report) is passes


def test_a_check_that_raises_fails_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    def broken(model: Model) -> Finding:
        raise RuntimeError("no kernel image")

    only(monkeypatch, "recorded_answers")
    monkeypatch.setattr(selftest, "recorded_answers", broken)
    file = tmp_path / "attached.json"
    options = ["--device", "cpu", "--timing", "--shape", "small", "--output", str(file), "--json"]
    assert main(["doctor", "--selftest", *options]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [each["passed"] for each in found["findings"]] == [False, True, True, True]
    assert found["findings"][0]["report"] == "raised RuntimeError: no kernel image"
    assert found["verdict"] == verdict([Finding("recorded answers", False, "")])
    assert json.loads(file.read_text()) == found


def test_an_unknown_shape_is_refused_first(capsys: Capture) -> None:
    assert main(["doctor", "--selftest", "--timing", "--shape", "gpt-9"]) == 2
    assert "no shape 'gpt-9'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_selftest_without_timing_says_only_whether_decoding_is_right(
    tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "found.json"
    assert main(["doctor", "--selftest", "--device", "cpu", "--output", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [each["name"] for each in found] == CHECKS[:-1]
    assert main(["doctor", "--selftest", "--shape", "small"]) == 2
    assert "--shape says whose layers are timed: add --timing to it." in capsys.readouterr().err
