"""Random checkpoints in shards, and loading measured in a process of its own."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from archer.bench.load import measure_load
from archer.bench.subject import open_subject
from archer.bench.weights import BLOCK, config_of, drawn, write_checkpoint
from archer.costs.shapes import Published, shapes
from archer.errors import ArcherError, BadRequest
from archer.loading.checkpoint import read_folder
from archer.loading.source import Source
from archer.model import load


def small_of(name: str) -> Published:
    """The published row with tiny sizes."""
    known = shapes()[name]
    shape = replace(
        known.shape,
        layers=3,
        width=32,
        heads=4,
        kv_heads=4 if name == "llada-8b" else 2,
        head_dim=8,
        inner=48,
        vocabulary=64,
    )
    return replace(known, shape=shape, mask=63, eos=62)


@pytest.mark.parametrize("name", ["llada-8b", "dream-7b"])
@pytest.mark.parametrize("shard", [1 << 30, 1500])
def test_a_written_checkpoint_loads_and_decodes(name: str, shard: int, tmp_path: Path) -> None:
    model = small_of(name)
    write_checkpoint(tmp_path, config_of(model), dtype=torch.bfloat16, shard=shard)
    files = sorted(path.name for path in tmp_path.glob("*.safetensors"))
    folder = read_folder(tmp_path)
    assert folder.shape == model.shape
    assert (folder.architecture, folder.mask, folder.eos) == (
        model.architecture,
        model.mask,
        (model.eos,),
    )
    assert folder.dtype == "bfloat16"
    if shard == 1500:
        assert files[0] == f"model-00001-of-{len(files):05}.safetensors"
        assert len(files) > 3
    else:
        assert files == ["model.safetensors"]
    (done,) = load(tmp_path, dtype="float32").generate([[1, 2, 3]], length=8)
    assert len(done.tokens) == 8


def test_shards_change_no_weight(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "many"]
    for folder, shard in zip(folders, (1 << 30, 1500), strict=True):
        folder.mkdir()
        write_checkpoint(folder, config_of(small_of("llada-8b")), shard=shard)
    one, many = (load(folder, dtype="float32").network.state_dict() for folder in folders)
    assert all(torch.equal(one[name], many[name]) for name in one)
    assert bool(one["layers.0.qkv"].std() > 0)


@pytest.mark.parametrize("present", ["config.json", "model.safetensors"])
def test_a_checkpoint_is_never_overwritten(present: str, tmp_path: Path) -> None:
    (tmp_path / present).write_text("mine")
    with pytest.raises(BadRequest, match=f"holds a {present} already; give an empty folder"):
        write_checkpoint(tmp_path, config_of(small_of("llada-8b")))
    assert [path.name for path in tmp_path.iterdir()] == [present]


def test_large_parameters_repeat_one_block_of_noise() -> None:
    values = drawn("embedding", (3, BLOCK // 2 + 1), torch.Generator().manual_seed(0)).view(-1)
    assert torch.equal(values[BLOCK:], values[: len(values) - BLOCK])
    assert float(values.std()) == pytest.approx(1.0, abs=0.01)
    head = drawn("head", (64, 400), torch.Generator().manual_seed(0))
    assert float(head.std()) == pytest.approx(4.0 / 20, rel=0.05)
    assert drawn("layers.0.qkv_bias", (3,), torch.Generator()).tolist() == [0, 0, 0]
    assert drawn("norm", (3,), torch.Generator()).tolist() == [1, 1, 1]


def test_loading_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, config_of(small_of("llada-8b")))
    found = measure_load(Source(tmp_path, dtype="float32"), updates=3)
    weights = sum(each.nbytes for each in load(tmp_path).network.parameters())
    assert found.weight_bytes == weights
    assert 0 < found.before_bytes <= found.peak_bytes <= found.decoded_peak_bytes
    assert found.updates == 3
    assert found.to_dict()["peak_over_weights"] == found.peak_bytes / weights


@pytest.mark.slow
def test_what_cannot_be_loaded_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadRequest, match=r"holds no config\.json"):
        measure_load(Source(tmp_path))
    with pytest.raises(
        BadRequest, match="The number of updates must be a whole number from 0 to 32, not 33"
    ):
        measure_load(Source(tmp_path), updates=33)
    monkeypatch.setattr("archer.bench.load.CHILD", "raise SystemExit('the end')")
    with pytest.raises(ArcherError, match="ended with exit code 1: the end"):
        measure_load(Source(tmp_path))


def test_a_model_is_opened_whole_or_in_part(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, config_of(small_of("dream-7b")))
    whole, part = (open_subject(str(tmp_path), layers, 8, 8) for layers in (None, 2))
    assert (whole.network.shape.layers, whole.depth, whole.network.shape.shift) == (3, 3, True)
    assert (part.network.shape.layers, part.depth) == (2, 3)
    with pytest.raises(BadRequest, match="has 3 layers; 4 were asked for"):
        open_subject(str(tmp_path), 4, 8, 8)
