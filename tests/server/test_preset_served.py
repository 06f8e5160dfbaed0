"""A server that was given a preset decodes by it whoever names no method."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from archer.cli import main
from archer.methods.build import build
from archer.methods.presets import Preset
from archer.model import Model
from server.running import CHAT, PROBLEM, Client, chat, serving

PRESET = Preset.of(build("factor+dual", {"length": 32}), {})


@pytest.fixture(scope="module")
def served(pocket: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    path = tmp_path_factory.mktemp("preset") / "p.json"
    path.write_text(json.dumps(PRESET.as_dict()))
    with serving(pocket, preset=path) as client:
        yield client


def test_it_is_used_unless_a_request_names_a_method(served: Client, pocket: Model) -> None:
    (plain,) = pocket.generate(PROBLEM, "factor+dual", length=32)
    reply = served.post(CHAT, chat()).json
    assert reply["choices"][0]["message"]["content"] == plain.text
    assert reply["usage"]["archer"]["updates"] == plain.updates
    (named,) = pocket.generate(PROBLEM, "saber", length=16)
    reply = served.post(CHAT, chat(archer={"method": "saber"}, max_tokens=16)).json
    assert reply["usage"]["archer"]["updates"] == named.updates


def test_what_a_request_sets_wins(served: Client, pocket: Model) -> None:
    (short,) = pocket.generate(PROBLEM, "factor+dual", length=16)
    assert (
        served.post(CHAT, chat(max_tokens=16)).json["usage"]["archer"]["updates"] == short.updates
    )
    asked = chat(archer={"settings": {"max_new_tokens": 16}})
    assert served.post(CHAT, asked).json["usage"]["archer"]["updates"] == short.updates
    assert served.post(CHAT, chat(archer={"settings": {"share": 0.5}})).status == 400


def test_a_preset_longer_than_allowed_is_refused_at_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(PRESET.as_dict()))
    assert main(["serve", "--preset", str(path), "--max-length", "31"]) == 2
    assert "raise --max-length" in capsys.readouterr().err
