"""Weights that do not fit: a file larger than a process may map, parameters that cannot be allocated."""

import json
import resource
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from archer.cli import main
from archer.errors import BadModel, OutOfMemory
from archer.loading import checkpoint
from archer.loading.checkpoint import load_network, read_folder
from archer.loading.weights import Copy, read_header, stream
from support.folders import make_llada

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="limits on address space are Linux's"
)
HUGE = 40 << 30
SAID = r"has 42\.9 GB, and this process may not map as much\. Raise its limit on address space"


def sparse(path: Path) -> Path:
    """A sound file of one tensor of 40 GiB, of which the disk holds nothing but the header."""
    tensor = {"dtype": "F32", "shape": [HUGE // 4], "data_offsets": [0, HUGE]}
    header = json.dumps({"w": tensor}).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + HUGE)
    return path


@contextmanager
def little_address_space() -> Iterator[None]:
    """4 GiB more than this process has now."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 30), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("name", ["model.safetensors", "model-00002-of-00002.safetensors"])
def test_a_sparse_file_is_refused_by_its_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    folder = make_llada(tmp_path / "model", shards=1 if name == "model.safetensors" else 2)
    assert (folder / name).exists()
    sparse(folder / name)
    with little_address_space():
        with pytest.raises(BadModel, match=SAID):
            read_folder(folder)
        assert main(["generate", "x", "--model", str(folder)]) == 2
    said = capsys.readouterr().err
    assert "may not map as much" in said
    assert "Traceback" not in said


def test_a_file_that_cannot_be_mapped_any_more_is_refused(tmp_path: Path) -> None:
    path = sparse(tmp_path / "w.safetensors")
    copy = Copy("w", read_header(path)["w"], torch.empty(1))
    with little_address_space(), pytest.raises(BadModel, match=SAID):
        stream(path, [copy])
    path.write_bytes(b"")
    with pytest.raises(BadModel, match=r"is damaged \(.*empty.*\); download it again"):
        stream(path, [copy])


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        OSError(12, "Cannot allocate memory"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_parameters_without_memory_are_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    folder = read_folder(make_llada(tmp_path / "model"))
    monkeypatch.setattr(checkpoint, "Transformer", refuse)
    with pytest.raises(OutOfMemory, match=r"not enough memory on cpu for the weights of .*model"):
        load_network(folder, device=torch.device("cpu"), dtype=torch.float32)


def test_another_error_of_parameters_stays_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("something else")

    folder = read_folder(make_llada(tmp_path / "model"))
    monkeypatch.setattr(checkpoint, "Transformer", refuse)
    with pytest.raises(RuntimeError, match="something else"):
        load_network(folder, device=torch.device("cpu"), dtype=torch.float32)
