"""Weights changed in place against the same weights loaded from files, bit for bit; all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from archer.errors import BadModel, BadRequest
from archer.model import Model, load
from archer.network.shape import Blocks
from archer.results.trace import Start
from archer.runs.manifest import model_identity
from support.folders import MAKE, make_llada, write_adapter

PROMPT = [5, 7, 11, 13, 9]
TEXT = [21, 22, 23]
QUERIES = "model.transformer.blocks.0.q_proj.weight"


def numbers(model: Model) -> dict[str, Tensor]:
    return dict(model.network.named_parameters())


def same(one: Model, other: Model) -> bool:
    """Every parameter that can be looked at, and what both compute."""
    own, its = numbers(one), numbers(other)
    assert own.keys() == its.keys()
    equal = all(
        torch.equal(own[name], its[name]) for name in own if own[name].layout == torch.strided
    )
    return equal and all(
        torch.equal(*pair) for pair in zip(scores(one), scores(other), strict=True)
    )


def scores(model: Model) -> list[Tensor]:
    """The logits of every update."""
    method = None if isinstance(model.folder.shape.attention, Blocks) else "saber"
    steps = model.stream(PROMPT, method, length=8)
    return [step.logits.rows[0].values for step in steps]


def file_of(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    return make_llada(tmp_path / "old"), make_llada(tmp_path / "new", seed=1)


@pytest.mark.usefixtures("whole_numbers")
@pytest.mark.parametrize(
    ("family", "quantize"),
    [
        *((family, how) for family in MAKE for how in (None, "int8")),
        *((family, "w8a8-head") for family in ("llada", "a2d-qwen3", "llada-moe")),
        ("dream", "w8a8"),
    ],
)
def test_an_update_is_a_reload(family: str, quantize: str | None, tmp_path: Path) -> None:
    old, new = MAKE[family](tmp_path / "old"), MAKE[family](tmp_path / "new", seed=1)
    how: dict[str, Any] = {"device": "cpu", "quantize": quantize}
    changed, fresh = load(old, **how), load(new, **how)
    assert not same(changed, fresh)
    assert changed.update_weights(new) == 1
    assert same(changed, fresh)
    changed.update_weights(iter(file_of(old).items()))
    assert same(changed, load(old, **how))
    assert changed.weights_version == 2


@pytest.mark.parametrize("quantize", [None, "int8"])
def test_some_parts_of_a_fused_matrix_may_change_alone(
    folders: tuple[Path, Path], quantize: str | None, tmp_path: Path
) -> None:
    old, new = folders
    names = (QUERIES, "model.transformer.blocks.0.up_proj.weight")
    mixed = file_of(old) | {name: file_of(new)[name] for name in names}
    model = load(old, device="cpu", quantize=quantize)
    model.update_weights({name: mixed[name] for name in names})
    whole = load(old, device="cpu", quantize=quantize)
    whole.update_weights(mixed)
    assert same(model, whole)
    assert not same(model, load(old, device="cpu", quantize=quantize))


def test_adapters_are_merged_again(folders: tuple[Path, Path], tmp_path: Path) -> None:
    old, new = folders
    module = QUERIES.removesuffix(".weight")
    adapter = write_adapter(tmp_path / "adapter", {module: (32, 32)})
    changed = load(old, device="cpu", adapter=str(adapter))
    changed.update_weights(new)
    fresh = load(new, device="cpu", adapter=str(adapter))
    assert same(changed, fresh)
    assert not same(changed, load(new, device="cpu"))


def test_a_head_that_is_the_embedding_changes_with_it(tmp_path: Path) -> None:
    make = MAKE["a2d-qwen3"]
    old, new = make(tmp_path / "old"), make(tmp_path / "new", seed=1)
    model = load(old, device="cpu")
    assert model.folder.shape.tied
    model.update_weights({"model.embed_tokens.weight": file_of(new)["model.embed_tokens.weight"]})
    network = model.network
    assert torch.equal(network.head, file_of(new)["model.embed_tokens.weight"])


WRONG: dict[str, tuple[Callable[[dict[str, Tensor]], Any], str]] = {
    "name": (lambda own: {"lm_head.weight": own[QUERIES]}, "has no tensor 'lm_head.weight'"),
    "shape": (
        lambda own: {QUERIES: own[QUERIES][:-1]},
        r"is \[31, 32\], and the model's is \[32, 32\]",
    ),
    "nan": (
        lambda own: {QUERIES: own[QUERIES] * torch.nan},
        "NaN or infinite values; look for what",
    ),
    "dtype": (lambda own: {QUERIES: own[QUERIES].long()}, "holds int64; give one of"),
    "twice": (lambda own: [(QUERIES, own[QUERIES])] * 2, "is given twice"),
    "pairs": (lambda own: [QUERIES], "pairs of a name and a tensor, not str and NoneType"),
    "nothing": (lambda own: [], "at least one tensor"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_changes_nothing(wrong: str, folders: tuple[Path, Path]) -> None:
    old, new = folders
    make, sentence = WRONG[wrong]
    model = load(old, device="cpu")
    bad = make(file_of(old))
    good = (
        []
        if wrong == "nothing"
        else [(name, tensor) for name, tensor in file_of(new).items() if name != QUERIES]
    )
    pairs = list(bad.items()) if isinstance(bad, dict) else bad
    with pytest.raises((BadModel, BadRequest), match=sentence):
        model.update_weights([*good, *pairs])
    assert same(model, load(old, device="cpu"))
    assert model.weights_version == 0
    assert model.language.model == model.name


def test_an_iterator_that_fails_halfway_changes_nothing(folders: tuple[Path, Path]) -> None:
    old, new = folders
    model = load(old, device="cpu")

    def lost() -> Iterator[tuple[str, Tensor]]:
        yield QUERIES, file_of(new)[QUERIES]
        raise ConnectionError("the trainer is gone")

    with pytest.raises(ConnectionError):
        model.update_weights(lost())
    assert same(model, load(old, device="cpu"))


def test_a_folder_of_another_shape_is_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    model = load(folders[0], device="cpu")
    with pytest.raises(BadModel, match="another architecture or shape"):
        model.update_weights(make_llada(tmp_path / "wider", d_model=64))


def test_a_head_that_is_stored_twice_stays_one(tmp_path: Path) -> None:
    make = partial(MAKE["a2d-qwen3"], tie_word_embeddings=True)
    folder = make(tmp_path / "old")
    model = load(folder, device="cpu")
    if not model.folder.copies:
        names = {place.parameter: place.tensor for place in model.folder.architecture.placements}
        pair = (names["head"], names["embedding"])
        object.__setattr__(model.folder, "copies", (pair,))
    head, embedding = model.folder.copies[0]
    tensor = torch.randn_like(model.network.embedding)
    with pytest.raises(BadModel, match="without an equal"):
        model.update_weights({head: tensor})
    with pytest.raises(BadModel, match="Head and embedding of this model are one"):
        model.update_weights({head: tensor, embedding: tensor + 1})
    model.update_weights({head: tensor, embedding: tensor})
    assert torch.equal(model.network.embedding, tensor)


def test_completions_traces_and_runs_name_the_version(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    old, new = folders
    model = load(old, device="cpu")
    assert "weights" not in model_identity(model)
    (before,) = model.generate(PROMPT, "saber", length=4)
    model.update_weights(new)
    (after,) = model.generate(PROMPT, "saber", length=4)
    assert (before.weights_version, after.weights_version) == (0, 1)
    assert [each.to_dict()["weights_version"] for each in (before, after)] == [0, 1]
    bare = before.to_dict(provenance=False)
    assert "weights_version" not in bare, "as before there were versions"
    start = after.trace().events[0]
    assert isinstance(start, Start)
    assert start.model == f"{model.name}+weights-1"
    first = model_identity(model)["weights"]
    assert first["version"] == 1
    model.update_weights(old)
    second = model_identity(model)["weights"]
    assert second["sha256"] != first["sha256"]
    with pytest.raises(BadRequest, match="changed in place"):
        model.save(tmp_path / "copy")
