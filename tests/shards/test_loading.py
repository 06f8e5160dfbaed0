"""What one shard reads of a checkpoint, and what it takes to do so."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import archer
from archer.bench.weights import config_of, write_checkpoint
from archer.costs.shapes import shapes
from archer.errors import BadRequest
from archer.loading.checkpoint import load_network, read_folder
from archer.network.linear import scales
from archer.network.shape import Scheme, Shape
from archer.network.shard import Shard, check, possible, shape_of
from conftest import REPOSITORY
from shards.pairs_of_models import FOLDERS
from support.folders import llada_config, llada_tensors, write_folder
from support.networks import MIXTURES, shape
from support.peaks import peak_of_loading

CPU = torch.device("cpu")


def cut(name: str, whole: Tensor, which: Shape, shard: Shard) -> Tensor:
    """The naive cut: heads, channels, words or experts of one shard, by kind of parameter."""
    layer, _, name = name.rpartition(".")
    rank, of = shard.rank, shard.of
    if name.startswith("expert_"):
        return whole.chunk(of)[rank]
    if name in ("embedding", "head"):
        return whole[rank * len(whole) // of : (rank + 1) * len(whole) // of]
    if name in ("out", "down"):
        return whole.chunk(of, dim=1)[rank]
    if name == "down_scale":
        experts = which.experts
        dense = experts is None or int(layer.rpartition(".")[2]) < experts.dense_layers
        inner = which.inner if experts is None or dense else experts.shared
        of_inputs = whole.repeat_interleave(inner // whole.shape[1], dim=1).chunk(of, dim=1)[rank]
        return of_inputs[:, :: of_inputs.shape[1] // scales(of_inputs.shape[1])]
    if name in ("gate_up", "gate_up_scale"):
        return torch.cat([half.chunk(of)[rank] for half in whole.chunk(2)])
    if name in ("qkv", "qkv_bias"):
        queries, keys = which.heads * which.head_dim, which.kv_heads * which.head_dim
        return torch.cat([part.chunk(of)[rank] for part in whole.split([queries, keys, keys])])
    return whole


@pytest.mark.parametrize("scheme", [each for each in Scheme if not each.whole])
@pytest.mark.parametrize("family", FOLDERS)
def test_a_shard_holds_its_part_of_every_parameter(
    tmp_path: Path, family: str, scheme: Scheme
) -> None:
    folder = read_folder(FOLDERS[family](tmp_path / "model"))
    whole = load_network(folder, device=CPU, dtype=torch.float64, scheme=scheme)
    for rank in range(2):
        shard = Shard(rank, 2)
        own = load_network(folder, device=CPU, dtype=torch.float64, scheme=scheme, shard=shard)
        parameters = dict(own.named_parameters())
        assert parameters.keys() == dict(whole.named_parameters()).keys()
        for name, parameter in whole.named_parameters():
            assert parameters[name].equal(cut(name, parameter, folder.shape, shard)), name


def test_a_number_that_does_not_divide_is_refused_with_those_that_do() -> None:
    which = replace(shape(heads=28, kv_heads=4, inner=96), experts=None)
    assert possible(which) == [2, 4]
    check(which, 4)
    with pytest.raises(BadRequest, match=r"3 shards cannot divide 28 attention heads and 4 key"):
        check(which, 3)
    with pytest.raises(BadRequest, match=r"Choose 2 or 4\."):
        shape_of(which, Shard(0, 8))


@pytest.mark.parametrize(
    ("name", "shards"),
    [
        ("llada-8b", [2, 4, 8, 16, 32]),
        ("dream-7b", [2, 4]),
        ("llada-moe-7b", [2, 4, 8, 16]),
        ("llada2-mini", [2, 4]),
    ],
)
def test_the_published_models_can_be_divided_as_the_docs_say(name: str, shards: list[int]) -> None:
    assert possible(shapes()[name].shape) == shards


def test_the_volumes_in_the_docs_follow_from_the_shape() -> None:
    which = shapes()["llada-8b"].shape

    def volume(computed: int, scored: int) -> int:
        """Bytes in bfloat16, by the formula on the page."""
        return 2 * which.width * ((2 * which.layers - 1) * computed + 2 * scored)

    cached, full = volume(256, 256), volume(512 + 256, 256)
    numbers = (
        f"{volume(1, 1) / 1e6:.2f} MB",
        f"{cached / 1e6:.0f} MB",
        f"{full / 1e6:.0f} MB",
        f"{1e3 * cached / 450e9:.1f} ms",
        f"{1e3 * cached / 25e9:.1f} ms",
    )
    said = (REPOSITORY / "docs" / "performance.md").read_text(encoding="utf-8")
    assert [each for each in numbers if each not in said] == []


def test_experts_must_be_divisible_too() -> None:
    which = replace(shape(heads=12, kv_heads=12), experts=MIXTURES["softmax"])
    with pytest.raises(BadRequest, match="6 shards cannot divide 8 experts evenly"):
        check(which, 6)
    which = replace(shape(heads=12, kv_heads=12), experts=MIXTURES["grouped"])
    assert possible(which) == [2, 4]
    own = shape_of(which, Shard(1, 2)).experts
    assert own is not None
    assert (own.count, own.first, own.held, own.shared) == (12, 6, 6, 8)


def test_it_is_refused_before_anything_is_loaded_or_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FOLDERS["llada"](tmp_path / "model")
    monkeypatch.setattr("archer.loading.checkpoint.load_network", None)
    monkeypatch.setattr("archer.shards.start.Processes", None)
    with pytest.raises(
        BadRequest, match=r"3 shards cannot divide 4 attention heads .* Choose 2 or 4"
    ):
        archer.load(tmp_path / "model", shards=3, device="cpu")
    with pytest.raises(BadRequest, match="It runs on one device, without shards"):
        archer.load("pocket", shards=5, device="cpu")
    with pytest.raises(BadRequest, match="Compiled passes cannot be divided"):
        archer.load("pocket", shards=2, compiled=True, device="cpu")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_peak_memory_is_that_of_the_share(tmp_path: Path) -> None:
    config = llada_config(
        d_model=1024, mlp_hidden_size=4096, vocab_size=8192, embedding_size=8192, n_layers=2
    )
    folder = tmp_path / "large"
    write_folder(folder, config, llada_tensors(config), dtype=torch.bfloat16)
    grown, size = peak_of_loading(folder, "float32", rank=1)
    assert 95e6 < size < 105e6
    assert 0.9 * size < grown <= 1.15 * size


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_peak_memory_of_a_shard_of_llada_8b(tmp_path: Path) -> None:
    """Four layers with random weights: 3.8 GB in bfloat16, of which each of two shards has half."""
    published = shapes()["llada-8b"]
    four_layers = replace(published, shape=replace(published.shape, layers=4))
    large = tmp_path / "large"
    large.mkdir()
    write_checkpoint(large, config_of(four_layers), dtype=torch.bfloat16, shard=1 << 28)
    folder = read_folder(large)
    for rank in range(2):
        grown, size = peak_of_loading(large, "bfloat16", rank=rank)
        assert size == pytest.approx(folder.weight_bytes / 2, rel=1e-3)
        assert 0.9 * size < grown <= 1.08 * size
