"""Preset files: written, read, taken by Python and by the command line, and refused when they are none."""

import json
from pathlib import Path
from typing import Any

import pytest

import archer
from archer.cli import main
from archer.errors import BadRequest
from archer.methods.build import build
from archer.methods.presets import Preset, is_file, open_preset
from archer.methods.spelling import in_full
from support.folders import make_llada

PROMPT = [5, 7, 9]
Capture = pytest.CaptureFixture[str]


def written(path: Path, **changes: Any) -> Path:
    method = build("saber+late:0.25", {"length": 8, "doubt": 0.5})
    path.write_text(json.dumps(Preset.of(method, {"n": 3}).to_dict() | changes))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_llada(tmp_path_factory.mktemp("preset") / "model")


def generated(capsys: Capture, folder: Path, *arguments: str) -> Any:
    asked = ["generate", "--prompt-ids", "5,7,9", "--model", str(folder), "--json", *arguments]
    assert main(asked) == 0
    return json.loads(capsys.readouterr().out)


def test_a_preset_is_a_method_with_all_its_settings(tmp_path: Path) -> None:
    path = written(tmp_path / "p.json")
    held = open_preset(path)
    assert held.method == "saber+late"
    assert held.about == {"n": 3}
    assert (held.settings["share"], held.settings["doubt"], held.settings["mu"]) == (0.25, 0.5, 2)
    method = archer.read_preset(str(path))
    assert method.settings == build("saber+late:0.25", {"length": 8, "doubt": 0.5}).settings
    endless = Preset.of(build("archer", {"radius": float("inf")}), {})
    assert endless.settings["radius"] == "inf"
    assert build(endless.method, endless.settings).settings["radius"] == float("inf")


def test_python_takes_it_as_a_method(tmp_path: Path, folder: Path) -> None:
    model = archer.load(folder, device="cpu", dtype="float32")
    preset = archer.read_preset(written(tmp_path / "p.json"))
    (done,) = model.generate([PROMPT], method=preset)
    (same,) = model.generate([PROMPT], method="saber+late:0.25", length=8, doubt=0.5)
    assert done.tokens == same.tokens
    assert len(model.generate([PROMPT], method=preset, length=6)[0].tokens) == 6


def test_the_command_line_takes_it_and_what_is_typed_wins(
    tmp_path: Path, folder: Path, capsys: Capture
) -> None:
    path = str(written(tmp_path / "p.json"))
    found = generated(capsys, folder, "--preset", path)
    assert found["method"] == "saber+late"
    assert (found["settings"]["length"], found["settings"]["share"]) == (8, 0.25)
    found = generated(capsys, folder, "--preset", path, "--length", "6", "--set", "share=1")
    assert (found["settings"]["length"], found["settings"]["share"]) == (6, 1)
    assert found["settings"]["doubt"] == 0.5
    assert main(["generate", "--prompt-ids", "5", "--preset", path, "--method", "archer"]) == 2
    assert "names its method: leave out --method archer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ("{", "holds no JSON"),
        ("[" * 100_000, "holds no JSON"),
        ("[]", "holds no JSON object"),
        ('{"format": "other"}', "is not a preset: it does not say 'archer-preset' as its format"),
        ('{"format": "archer-preset", "version": 2}', "has version 2; this Archer reads 1"),
        ('{"format": "archer-preset", "version": 1, "method": 3}', "is damaged"),
    ],
)
def test_what_is_no_preset_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "p.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(BadRequest, match=message):
        archer.read_preset(path)


def test_a_preset_that_no_method_takes_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "p.json", settings={"share": -1})
    with pytest.raises(BadRequest, match=r"cannot be used\. share must be"):
        archer.read_preset(path)
    with pytest.raises(BadRequest, match=r"cannot be used\. There is no method 'sabre'"):
        archer.read_preset(written(path, method="sabre"))


def test_names_and_files_are_told_apart() -> None:
    assert is_file("mine.json")
    assert not is_file("paper:mbpp")
    assert in_full("archer:11") == in_full("archer") == "saber+archer"
    assert in_full("wino") == "wino+eager"
