"""Loading in eight bits: what is quantised, what it weighs, and what it does to a small model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from archer.engine.int8 import quantised
from archer.errors import BadModel, BadRequest
from archer.loading.checkpoint import load_network, read_folder
from archer.model import load
from folders import make_dream, make_llada, make_llada2, make_llada_moe
from spoil import tensors

FAMILIES = pytest.mark.parametrize("make", [make_llada, make_dream, make_llada_moe, make_llada2])
MATRICES = ("qkv", "out", "gate_up", "down", "expert_gate_up", "expert_down")


@FAMILIES
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_only_matrices_of_layers_are_quantised(
    make: object, dtype: torch.dtype, tmp_path: Path
) -> None:
    folder = read_folder(make(tmp_path / "model"))  # type: ignore[operator]
    kept = load_network(folder, device=torch.device("cpu"), dtype=dtype)
    small = load_network(folder, device=torch.device("cpu"), dtype=dtype, int8=True)
    own = dict(small.named_parameters())
    for name, parameter in kept.named_parameters():
        if name.rpartition(".")[2] in MATRICES:
            exact = load_network(folder, device=torch.device("cpu"), dtype=torch.float32)
            flat = dict(exact.named_parameters())[name].flatten(0, -2)
            numbers, scale = quantised(flat)
            assert torch.equal(own[name].flatten(0, -2), numbers)
            assert torch.equal(own[f"{name}_scale"].flatten(), scale)
            assert own[f"{name}_scale"].dtype == torch.float32
        else:
            assert torch.equal(own[name], parameter)
    assert len(own) == len(list(kept.parameters())) + sum("_scale" in name for name in own)


@FAMILIES
def test_a_quantised_model_decodes(make: object, tmp_path: Path) -> None:
    model = load(make(tmp_path / "model"), device="cpu", dtype="float32", quantize="int8")  # type: ignore[operator]
    (done,) = model.generate([5, 6, 7], length=8)
    assert len(done.tokens) == 8
    assert done.full_passes + done.cached_passes + done.reused_passes == done.updates


def test_values_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    folder = make_llada(tmp_path / "model")
    name = "model.transformer.blocks.1.q_proj.weight"
    tensors(lambda held: held[name][3, :2].fill_(torch.nan))(folder)
    with pytest.raises(BadModel, match="NaN or infinite"):
        load(folder, device="cpu", dtype="float32", quantize="int8")


def test_another_quantisation_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="There is no quantisation 'int4' here"):
        load(tmp_path / "absent", quantize="int4")


def test_rows_longer_than_a_piece_are_quantised_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from archer.loading import weights

    folder = read_folder(make_llada(tmp_path / "model"))
    whole = load_network(folder, device=torch.device("cpu"), dtype=torch.float32, int8=True)
    monkeypatch.setattr(weights, "PIECE", 7)
    pieces = load_network(folder, device=torch.device("cpu"), dtype=torch.float32, int8=True)
    for one, other in zip(whole.parameters(), pieces.parameters(), strict=True):
        assert torch.equal(one, other)
