"""Malformed and damaged model folders: each loads or is refused with one sentence, reading nothing else."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import safetensors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archer.errors import ArcherError, BadModel, BadRequest
from archer.loading import weights
from archer.loading.checkpoint import read_folder
from archer.model import load
from support import (
    malformed_config,
    malformed_files,
    malformed_mixture,
    malformed_qwen,
    malformed_tokenizer,
)
from support.folders import llada_config, make_a2d, make_llada
from support.spoil import Case, edited, open_model

CASES = (
    malformed_config.CASES
    + malformed_files.CASES
    + malformed_mixture.CASES
    + malformed_qwen.CASES
    + malformed_tokenizer.CASES
)
opened: list[str] = []
watching = [False]


def note_opening(event: str, arguments: tuple[object, ...]) -> None:
    if watching[0] and event == "open":
        opened.append(os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes) else "")


sys.addaudithook(note_opening)


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Collects every file that is opened, by Python or by the safetensors library."""

    def safe_open(path: Path, framework: str) -> Any:
        opened.append(str(path))
        return safetensors.safe_open(path, framework=framework)

    monkeypatch.setattr(weights, "safe_open", safe_open)
    opened.clear()
    watching[0] = True
    try:
        yield opened
    finally:
        watching[0] = False


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_malformed_folder(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = case.make(tmp_path / "model")
    open_model(folder)
    case.spoil(folder)
    with watched(monkeypatch) as files, pytest.raises(BadModel) as refusal:
        open_model(folder)
    sentence = str(refusal.value)
    assert case.phrase in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < 400 + 2 * len(str(folder))
    mine = [file for file in files if file.startswith(str(tmp_path))]
    assert all(Path(file).parent == folder for file in mine)


def test_the_watch_sees_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_llada(tmp_path / "model", tokenizer=True)
    with watched(monkeypatch) as files:
        open_model(folder)
    assert {str(folder / "config.json"), str(folder / "tokenizer.json")} <= set(files)
    assert files.count(str(folder / "model.safetensors")) == 3


def test_names_of_cases_differ() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 45
    assert len(malformed_qwen.CASES) >= 40, "the families of 2026 and their adapters"


TEMPLATES = {
    "raises": ("{{ raise_exception('No.') }}", BadRequest, "refuses the messages: No."),
    "no syntax": ("{% if %}", BadModel, "fails ("),
    "unknown name": ("{{ thinking.mode }}", BadModel, "fails ("),
}


@pytest.mark.parametrize(("source", "kind", "phrase"), TEMPLATES.values(), ids=TEMPLATES)
@pytest.mark.parametrize("make", [make_a2d, make_llada])
def test_a_template_that_fails_is_told_and_raw_prompts_work(
    make: Callable[..., Path],
    source: str,
    kind: type[ArcherError],
    phrase: str,
    tmp_path: Path,
) -> None:
    folder = make(tmp_path / "model", tokenizer=True)
    edited("tokenizer_config.json", lambda held: held.update(chat_template=source))(folder)
    model = load(folder, device="cpu", dtype="float32")
    with pytest.raises(kind) as refusal:
        model.generate("Hello", "archer", length=4)
    assert phrase in str(refusal.value)
    assert str(folder) in str(refusal.value)
    assert len(model.generate("Hello", "archer", length=4, chat=False)[0].tokens) == 4


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(BadModel, match="is not a folder"):
        read_folder(tmp_path / "absent")


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    folder = make_llada(tmp_path / "model")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(BadModel, match="cannot be read: Permission denied"):
        read_folder(folder)


def test_unreachable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", refuse)
    with pytest.raises(BadModel, match="is not a folder"):
        read_folder(tmp_path)


def test_too_many_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_llada(tmp_path / "model")
    monkeypatch.setattr(weights, "MOST_TENSORS", 20)
    with pytest.raises(BadModel, match="holds 21 tensors; at most 20 are read"):
        read_folder(folder)


SHARD = "model-00001-of-00002.safetensors"
FILES = ("config.json", "model.safetensors.index.json", SHARD, "tokenizer.json")
DRAWN = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_llada(tmp_path_factory.mktemp("sound") / "m", shards=2, tokenizer=True, n_layers=1)


def loads_or_refuses(sound: Path, folder: Path, name: str, data: bytes) -> None:
    folder.mkdir(exist_ok=True)
    for path in sound.iterdir():
        (folder / path.name).write_bytes(data if path.name == name else path.read_bytes())
    try:
        open_model(folder)
    except BadModel as error:
        assert str(error).endswith(".")  # noqa: PT017 - loading well is as good as a refusal


@DRAWN
@given(
    st.sampled_from(FILES), st.lists(st.tuples(st.floats(0, 1), st.integers(1, 255)), min_size=1)
)
def test_flipped_bits(
    sound: Path, tmp_path: Path, name: str, flips: list[tuple[float, int]]
) -> None:
    data = bytearray((sound / name).read_bytes())
    reach = min(len(data), 4096) - 1
    for place, bits in flips:
        data[int(place * reach)] ^= bits
    loads_or_refuses(sound, tmp_path / "m", name, bytes(data))


@DRAWN
@given(st.sampled_from(FILES), st.floats(0, 1, exclude_max=True))
def test_cut_short(sound: Path, tmp_path: Path, name: str, share: float) -> None:
    data = (sound / name).read_bytes()
    loads_or_refuses(sound, tmp_path / "m", name, data[: int(share * len(data))])


@DRAWN
@given(st.sampled_from(FILES), st.binary(max_size=64), st.floats(0, 1))
def test_bytes_put_in(sound: Path, tmp_path: Path, name: str, extra: bytes, share: float) -> None:
    data = (sound / name).read_bytes()
    place = int(share * min(len(data), 4096))
    loads_or_refuses(sound, tmp_path / "m", name, data[:place] + extra + data[place:])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
)


@DRAWN
@given(st.sampled_from(sorted(llada_config())), JSON)
def test_config_values(sound: Path, tmp_path: Path, key: str, value: object) -> None:
    changed = json.loads((sound / "config.json").read_text()) | {key: value}
    loads_or_refuses(sound, tmp_path / "m", "config.json", json.dumps(changed).encode())
