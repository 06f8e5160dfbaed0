"""Drawn damage to a sound folder: it either loads or is refused; nothing else ever happens."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archer.errors import BadModel
from support.folders import llada_config, make_llada
from support.spoil import open_model

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
