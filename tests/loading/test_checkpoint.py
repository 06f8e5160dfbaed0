"""Model folders -> networks with weights, and the safetensors files that they are read from."""

import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from archer.errors import BadModel
from archer.loading import weights
from archer.loading.checkpoint import load_network, read_folder
from archer.loading.weights import Copy, read_header, stream
from archer.network.network import Transformer
from conftest import shared
from support.folders import (
    llada_config,
    llada_tensors,
    make_dream,
    make_llada,
    write_folder,
)
from support.peaks import peak_of_loading
from support.whole_numbers import skip_where_refused

CPU = torch.device("cpu")


def load(folder: Path, dtype: torch.dtype = torch.float32) -> Transformer:
    return load_network(read_folder(folder), device=CPU, dtype=dtype)


def same(network: Transformer, other: Transformer) -> bool:
    mine, theirs = network.state_dict(), other.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[k], theirs[k]) for k in mine)


@pytest.mark.parametrize("shards", [2, 3])
def test_shards_make_no_difference(tmp_path: Path, shards: int) -> None:
    whole, split = tmp_path / "whole", tmp_path / "split"
    assert same(load(make_dream(whole)), load(make_dream(split, shards=shards)))


def test_what_the_folder_says(tmp_path: Path) -> None:
    folder = read_folder(make_llada(tmp_path, dtype=torch.bfloat16))
    assert folder.path == tmp_path
    assert folder.architecture.name == "LLaDAModelLM"
    assert (folder.mask, folder.eos) == (258, (257,))
    assert folder.config["model_type"] == "llada"
    assert folder.dtype == "bfloat16"
    network = load_network(folder, device=CPU, dtype=torch.float32)
    assert folder.weight_bytes == 2 * sum(p.numel() for p in network.parameters())


def test_the_network_is_ready_for_inference(tmp_path: Path) -> None:
    network = load(make_llada(tmp_path), torch.float64)
    assert not network.training
    assert {p.dtype for p in network.parameters()} == {torch.float64}
    assert not any(p.requires_grad for p in network.parameters())


def test_the_dtype_of_most_weights_counts(tmp_path: Path) -> None:
    make_llada(tmp_path, dtype=torch.bfloat16)
    held = load_file(tmp_path / "model.safetensors")
    held["model.transformer.ln_f.weight"] = held["model.transformer.ln_f.weight"].float()
    save_file(held, tmp_path / "model.safetensors")
    assert read_folder(tmp_path).dtype == "bfloat16"


def test_rotary_frequencies_are_tolerated(tmp_path: Path) -> None:
    before = load(make_dream(tmp_path))
    held = load_file(tmp_path / "model.safetensors")
    held["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    save_file(held, tmp_path / "model.safetensors")
    assert same(load(tmp_path), before)


@pytest.mark.parametrize("name", ["llada-tiny-a", "llada-tiny-b", "dream-tiny"])
def test_golden_checkpoints(name: str) -> None:
    folder = read_folder(shared("data", "golden", "checkpoints", name))
    network = load_network(folder, device=CPU, dtype=torch.float32)
    assert sum(p.numel() for p in network.parameters()) * 4 == folder.weight_bytes
    assert folder.config["mask_token_id"] == folder.mask


def in_hub_cache(tmp_path: Path, blobs: Path) -> Path:
    """A folder as the hub client lays it out: links into `blobs`."""
    make_llada(tmp_path / "made", tokenizer=True)
    snapshot = tmp_path / "models--a--b" / "snapshots" / "c0ffee"
    snapshot.mkdir(parents=True)
    blobs.mkdir(parents=True)
    for path in (tmp_path / "made").iterdir():
        path.rename(blobs / path.name)
        (snapshot / path.name).symlink_to(blobs / path.name)
    return snapshot


def test_links_into_the_hub_cache_are_followed(tmp_path: Path) -> None:
    folder = in_hub_cache(tmp_path, tmp_path / "models--a--b" / "blobs")
    assert load(folder).dtype == torch.float32
    (tmp_path / "alias").symlink_to(folder)
    assert load(tmp_path / "alias").dtype == torch.float32


def test_refusals_name_the_file_and_not_its_blob(tmp_path: Path) -> None:
    folder = in_hub_cache(tmp_path, tmp_path / "models--a--b" / "blobs")
    (folder / "config.json").write_text("{}")
    with pytest.raises(BadModel, match=r"snapshots/c0ffee/config\.json: the key"):
        read_folder(folder)


def test_a_relative_folder_may_be_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_llada(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    folder = read_folder(Path("model"))
    monkeypatch.chdir("/")
    assert load_network(folder, device=CPU, dtype=torch.float32).shape == folder.shape


@pytest.mark.parametrize("place", ["models--c--d/blobs", "models--a--b/blobs/deeper", "blobs"])
def test_links_to_other_blobs_are_not(tmp_path: Path, place: str) -> None:
    with pytest.raises(BadModel, match="leads outside"):
        read_folder(in_hub_cache(tmp_path, tmp_path / place))


CANARY = "from pathlib import Path\nPath({path!r}).write_text('run')\n"


def test_code_in_the_folder_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = tmp_path / "canary"
    code = CANARY.format(path=str(canary))
    auto_map = {"AutoConfig": "configuration_x.Config", "AutoModel": "modeling_x.Model"}
    folder = make_llada(tmp_path / "model", auto_map=auto_map, trust_remote_code=True)
    for name in ("configuration_x.py", "modeling_x.py", "__init__.py", "sitecustomize.py"):
        (folder / name).write_text(code)
    monkeypatch.chdir(folder)
    load(folder)
    assert not canary.exists()
    exec(compile(code, "canary", "exec"))
    assert canary.exists()


# --- memory -------------------------------------------------------------------------------------


@pytest.mark.thinned(4)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("stored", "kept", "least"),
    [
        (torch.bfloat16, "plain", 190e6),
        (torch.float32, "plain", 190e6),
        (torch.bfloat16, "int8", 150e6),
        (torch.bfloat16, "w8a8-head", 74e6),
    ],
    ids=str,
)
def test_peak_memory_is_that_of_the_weights(
    tmp_path: Path, stored: torch.dtype, kept: str, least: float
) -> None:
    """In eight bits too: 150 MB where float32 would take 190."""
    if kept == "w8a8-head":
        skip_where_refused()
    config = llada_config(
        d_model=1024, mlp_hidden_size=4096, vocab_size=8192, embedding_size=8192, n_layers=2
    )
    folder = tmp_path / "large"
    write_folder(folder, config, llada_tensors(config), dtype=stored)
    growth, size = peak_of_loading(folder, "float32", kept=kept)
    assert least < size < 1.15 * least
    assert growth > 0.9 * size
    assert growth <= 1.15 * size


def saved(path: Path, **tensors: torch.Tensor) -> Path:
    save_file(tensors, path)
    return path


def copied(path: Path, name: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    entry = read_header(path)[name]
    target = torch.empty(entry.shape, dtype=dtype)
    stream(path, [Copy(name, entry, target)])
    return target


@pytest.mark.parametrize("target", [torch.float32, torch.bfloat16, torch.float64, torch.float16])
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float64, torch.float16])
def test_values_arrive_in_the_wanted_dtype(
    tmp_path: Path, stored: torch.dtype, target: torch.dtype
) -> None:
    values = torch.randn(7, 5).to(stored)
    path = saved(tmp_path / "a.safetensors", x=values)
    assert torch.equal(copied(path, "x", target), values.to(target))


@pytest.mark.parametrize("piece", [1, 3, 8, 34, 35, 36])
def test_any_size_of_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    values = torch.randn(7, 5)
    path = saved(tmp_path / "a.safetensors", x=values, y=torch.randn(11))
    monkeypatch.setattr(weights, "PIECE", piece)
    assert torch.equal(copied(path, "x"), values)


def test_rows_of_a_fused_parameter(tmp_path: Path) -> None:
    first, second = torch.randn(3, 4), torch.randn(2, 4)
    path = saved(tmp_path / "a.safetensors", a=first, b=second)
    entries = read_header(path)
    fused = torch.zeros(6, 4)
    copies = [Copy("b", entries["b"], fused[3:5]), Copy("a", entries["a"], fused[0:3])]
    stream(path, copies)
    assert torch.equal(fused, torch.cat([first, second, torch.zeros(1, 4)]))


def test_values_at_odd_addresses(tmp_path: Path) -> None:
    values = torch.arange(6.0)
    path = tmp_path / "a.safetensors"
    header = {"x": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
    raw = json.dumps(header).encode()
    raw += b" " * ((1 - len(raw)) % 4)
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + values.numpy().tobytes())
    assert read_header(path)["x"].start % 4 == 1
    assert torch.equal(copied(path, "x"), values.view(2, 3))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("place", [0, 8, 17, 34])
def test_one_bad_value_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: float, place: int
) -> None:
    values = torch.randn(35)
    values[place] = bad
    path = saved(tmp_path / "a.safetensors", x=values.bfloat16())
    monkeypatch.setattr(weights, "PIECE", 8)
    with pytest.raises(BadModel, match='the tensor "x" holds NaN or infinite values'):
        copied(path, "x")


def test_a_value_beyond_the_target(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.safetensors", x=torch.tensor([1.0, 1e5]))
    assert copied(path, "x").tolist() == [1.0, 1e5]
    with pytest.raises(BadModel, match="too large for float16; load the model in float32"):
        copied(path, "x", torch.float16)


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.safetensors", x=torch.randn(100))
    entry = read_header(path)["x"]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(BadModel, match="became shorter"):
        stream(path, [Copy("x", entry, torch.empty(100))])


def test_metadata_is_not_a_tensor(tmp_path: Path) -> None:
    save_file({"x": torch.ones(2)}, tmp_path / "a.safetensors", metadata={"format": "pt"})
    assert list(read_header(tmp_path / "a.safetensors")) == ["x"]


def test_the_header_is_checked_even_where_the_library_passes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path / "a.safetensors", x=torch.ones(2))
    entry = {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}
    monkeypatch.setattr(weights, "_header_bytes", lambda _: json.dumps({"x": entry}).encode())
    with pytest.raises(BadModel, match='the description of "x" is not valid'):
        read_header(path)
