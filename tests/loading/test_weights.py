"""Safetensors files: headers and streamed copies."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from archer.errors import BadModel
from archer.loading import weights
from archer.loading.weights import Copy, read_header, stream


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
