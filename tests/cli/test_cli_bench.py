"""`archer bench`: every measurement runs on something tiny, and refuses what cannot be measured."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archer.cli import main
from archer.cli.bench import COMMANDS
from archer.costs.shapes import published, shapes
from conftest import REPOSITORY
from support.folders import make_llada

Capture = pytest.CaptureFixture[str]
FACTS = {"cpu", "cores", "threads", "device", "dtype", "torch"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_llada(tmp_path_factory.mktemp("model"), tokenizer=False))


def asked(capsys: Capture, *words: str) -> dict[str, Any]:
    assert main(["bench", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert set(found["machine"]) >= FACTS
    return found


def refused(capsys: Capture, *words: str) -> str:
    assert main(["bench", *words]) == 2
    return capsys.readouterr().err


def step_words(model: str, prompt: str = "8,16") -> tuple[str, ...]:
    return ("step", "--shape", model, "--prompt", prompt, "--response", "8", "--repeats", "1")


def test_step_as_json(model: str, capsys: Capture) -> None:
    found = asked(capsys, *step_words(model))
    assert [row["prompt"] for row in found["rows"]] == [8, 16]
    keys = ("full_ms", "cached_ms", "naive_ms", "speedup", "limit", "fraction", "limit_naive")
    for row in found["rows"]:
        assert all(row[key] > 0 for key in keys)
        assert set(row["spread"]) == {"full", "cached", "naive"}
    assert (found["layers"], found["depth"], found["response"]) == (2, 2, 8)


def test_step_as_a_table(model: str, capsys: Capture) -> None:
    assert main(["bench", *step_words(model), "--library"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"`{model}`, 2 layers, response 8. ")
    assert [line.partition(": full ")[0] for line in lines[1:3]] == ["prompt 8", "prompt 16"]
    heads = [line.split(" | ") for line in lines if line.startswith("| prompt")]
    assert [head[-1] for head in heads] == ["spread (%) |", "fraction |", "counted |"]
    assert len([line for line in lines if line.startswith("| 16 ")]) == 3


def test_one_layer_cannot_be_extrapolated(model: str, capsys: Capture) -> None:
    (row,) = asked(capsys, *step_words(model, "8"), "--layers", "1")["rows"]
    assert row["layers"] == 1
    assert row["whole"] is None
    assert main(["bench", *step_words(model, "8"), "--layers", "1"]) == 0
    assert "Extrapolated" not in capsys.readouterr().out


def test_decode(model: str, capsys: Capture) -> None:
    words = ("decode", "--shape", model, "--prompt", "8", "--response", "8", "--repeats", "1")
    found = asked(capsys, *words)
    assert [row["method"] for row in found["rows"]] == ["saber", "archer", "llada-confidence"]
    assert set(found["rows"][1]["over"]) == {"saber", "llada-confidence"}
    assert main(["bench", *words, "--methods", "archer, saber"]) == 0
    out = capsys.readouterr().out
    assert "over saber" in out
    assert "over llada-confidence" not in out


def test_batch(model: str, capsys: Capture) -> None:
    words = ("batch", "--shape", model, "--prompt", "8", "--response", "8", "--repeats", "1")
    found = asked(capsys, *words, "--sizes", "1,2")
    assert [row["batch"] for row in found["rows"]] == [1, 2]
    assert found["rows"][1]["kv_bytes"] == 2 * found["rows"][0]["kv_bytes"]
    assert main(["bench", *words, "--sizes", "1", "--threads", "1"]) == 0
    assert "tokens/s" in capsys.readouterr().out


def test_traffic(model: str, capsys: Capture) -> None:
    words = ("traffic", "--model", model, "--requests", "4", "--prompts", "2,6", "--lengths", "4,8")
    found = asked(capsys, *words, "--repeats", "1", "--threads", "1")
    ways = ["one at a time", "engine, one at a time", "fixed batches", "engine"]
    assert [(row["way"], row["load"]) for row in found["rows"]] == [
        (way, load) for load in (0.8, "all at once") for way in ways
    ]
    for row in found["rows"]:
        assert 0 < row["p50"] <= row["p99"]
        assert 0 <= row["goodput"] <= row["throughput"] * 1.0001
    assert main(["bench", *words, "--repeats", "1", "--loads", "inf"]) == 0
    assert "p99 s, small" in capsys.readouterr().out


def test_profile(model: str, capsys: Capture) -> None:
    words = ("profile", "--shape", model, "--prompt", "8", "--response", "8", "--repeats", "1")
    found = asked(capsys, *words)
    assert [row["step"] for row in found["rows"]] == ["full", "cached"]
    assert main(["bench", *words]) == 0
    out = capsys.readouterr().out
    assert "| work | full ms | share (%) | cached ms | share (%) |" in out
    assert out.count("matrix products") == 1


def test_structure(model: str, capsys: Capture) -> None:
    tokenizer = str(REPOSITORY / "src" / "archer" / "pocket" / "model" / "tokenizer.json")
    words = ("structure", tokenizer, "--shape", "pocket", "--prompt", "8", "--response", "160")
    found = asked(capsys, *words, "--repeats", "1")
    assert [row["schema"] for row in found["rows"]] == ["flat", "nested", "array"]
    for row in found["rows"]:
        assert row["share"] == pytest.approx(row["update_ms"] / row["cached_ms"])
        assert min(row["peak_mb"], row["kept_mb"], row["states"], row["schema_ms"]) > 0
    few = ("--prompt", "8", "--response", "8")
    other = refused(capsys, "structure", tokenizer, "--shape", model, *few)
    assert "Give the tokenizer of a model of this shape" in other


@pytest.mark.slow
def test_load(model: str, capsys: Capture) -> None:
    found = asked(capsys, "load", model, "--threads", "1")
    assert found["peak_bytes"] > found["weight_bytes"]
    assert found["layers"] == 2
    assert main(["bench", "load", model]) == 0
    assert "peak / weights" in capsys.readouterr().out


def test_checkpoint(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "new" / "one"
    words = ("checkpoint", str(folder), "--shape", "small", "--layers", "1", "--dtype", "float32")
    assert main(["bench", *words]) == 0
    assert capsys.readouterr().out == f"{folder}\n"
    found = asked(capsys, *step_words(str(folder), "8"))
    assert found["depth"] == 1
    assert "holds a config.json already" in refused(capsys, *words)


@pytest.mark.parametrize(("layers", "extrapolated"), [("3", True), ("2", False)])
def test_a_step_of_a_mixture_behind_dense_layers(
    layers: str, extrapolated: bool, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """LLaDA2's bench at a size for tests: a layer between the dense ones and the last is needed."""
    known = published("llada2-mini")
    assert known.shape.experts is not None
    small = replace(
        known.shape,
        width=32,
        heads=2,
        kv_heads=1,
        head_dim=16,
        rotary=8,
        inner=24,
        vocabulary=64,
        layers=5,
        experts=replace(known.shape.experts, inner=8, shared=8),
    )
    monkeypatch.setitem(shapes(), "llada2-mini", replace(known, shape=small, mask=63, eos=62))
    words = ("step", "--shape", "llada2-mini", "--prompt", "40", "--response", "24")
    found = asked(capsys, *words, "--layers", layers, "--repeats", "1", "--dtype", "float32")
    (row,) = found["rows"]
    assert (found["layers"], found["depth"]) == (int(layers), 5)
    assert row["full_ms"] > 0
    assert row["limit"] > 1
    if not extrapolated:
        assert row["whole"] is None
        return
    assert row["whole"]["layers"] == 5
    assert row["whole"]["limit"] > row["limit"]


def test_the_makefile_runs_enough_layers_to_extrapolate() -> None:
    """Every shape it steps through: one layer between the dense ones and the last."""
    lines = (REPOSITORY / "Makefile").read_text(encoding="utf-8").splitlines()
    steps = [line for line in lines if "step --shape" in line and "--layers" in line]
    assert len(steps) >= 4
    for line in steps:
        shape, layers = (line.split(f"--{word} ")[1].split()[0] for word in ("shape", "layers"))
        experts = shapes()[shape].shape.experts
        assert int(layers) >= 2 + (0 if experts is None else experts.dense_layers)


def test_a_random_shape_is_measured_without_a_download(capsys: Capture) -> None:
    words = ("step", "--prompt", "8", "--response", "8", "--repeats", "1", "--layers", "1")
    assert asked(capsys, *words, "--shape", "small")["depth"] == shapes()["small"].shape.layers


def test_every_measurement_has_a_line_of_help(capsys: Capture) -> None:
    assert main(["bench", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(f" {name} " in out for name in COMMANDS)


SHAPE_NAMES = ", ".join(shapes())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("step --shape llada-9b", f"There is no shape 'llada-9b'. Shapes: {SHAPE_NAMES}; or give"),
        ("step --prompt 128,x", "for --prompt: give whole numbers of at least 1"),
        ("step --repeats 0", "for --repeats: give a whole number of at least 1, not 0"),
        ("step --layers 0", "for --layers: give a whole number of at least 1, not 0"),
        ("step --shape small --layers 7", "small has 6 layers; 7 were asked for"),
        (
            "step --shape small --layers 1 --response 0",
            "for --response: give a whole number of at least 1",
        ),
        ("step --shape small --layers 1 --prompt 4096", "but the model has 4096. Shorten"),
        ("step --shape small --threads 0", "for --threads: give a whole number of at least 1"),
        ("step --shape small --dtype int8", "There is no dtype 'int8' here"),
        ("step --shape small --quantize w8a8,int4", "There is no quantisation 'int4' here"),
        ("decode --quantize plain", "There is no quantisation 'plain' here"),
        ("profile --prompt 0", "for --prompt: give a whole number of at least 1, not 0"),
        ("decode --prompts 0", "for --prompts: give a whole number of at least 1, not 0"),
        ("decode --methods nothing", "There is no method 'nothing'"),
        ("batch --sizes 1,-2", "for --sizes: give whole numbers of at least 1"),
        ("traffic --prompts 40", "for --prompts: give the shortest and the longest"),
        ("traffic --prompts 40,4", "for --prompts: give the shortest and the longest"),
        ("traffic --loads 0.8,-1", "for --loads: give numbers above 0, or inf"),
        ("traffic --loads fast", "for --loads: give numbers above 0, or inf"),
        ("traffic --methods archer:0", "radius must be"),
        ("batch --method archer:0", "radius must be"),
        (
            "load nowhere --updates 99",
            "The number of updates must be a whole number from 0 to 32, not 99",
        ),
        ("structure nowhere.json", "nowhere.json"),
        ("checkpoint x --shape nobody", f"There is no shape 'nobody'. Shapes: {SHAPE_NAMES}."),
        ("checkpoint x --dtype int8", "There is no dtype 'int8' here"),
        ("checkpoint x --layers 0", "for --layers: give a whole number of at least 1, not 0"),
        ("passes --mixes 2", "--mixes takes at least 5"),
        ("passes --rows 0", "for --rows: give whole numbers of at least 1"),
        ("serve --requests 0", "for --requests: give a whole number"),
        ("serve --clients 0", "for --clients: give whole numbers"),
        ("serve --seconds 0", "for --seconds: give one number above 0 and below infinity, not 0"),
        ("serve --seconds 9999", "--seconds takes at most 3600"),
        ("serve --mixes 2", "--mixes takes at least 5"),
        ("checkpoint /dev/null/x --shape small", "/dev/null/x cannot be written: Not a directory."),
    ],
)
def test_what_cannot_be_measured_is_refused(words: str, sentence: str, capsys: Capture) -> None:
    assert sentence in refused(capsys, *words.split())
