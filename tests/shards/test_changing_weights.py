"""New weights over two gloo ranks: bit for bit what both ranks load from files, or nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from archer.errors import BadModel
from archer.model import Model, load
from shards.pairs_of_models import IDS, PROMPT, VOCABULARY
from support.folders import make_llada, make_llada2, make_llada_moe, write_adapter

OUT = "model.transformer.blocks.0.attn_out"


def logits(model: Model) -> list[torch.Tensor]:
    """Of every update."""
    return [step.logits.rows[0].values for step in model.stream(list(PROMPT), length=6)]


def llada(folder: Path, seed: int) -> Path:
    return make_llada(folder, seed=seed, embedding_size=VOCABULARY, **IDS)


def moe(folder: Path, seed: int) -> Path:
    return make_llada_moe(folder, seed=seed, **IDS)


def llada2(folder: Path, seed: int) -> Path:
    return make_llada2(folder, seed=seed, num_hidden_layers=3, **IDS)


@pytest.mark.parametrize(
    ("make", "quantize", "adapted"),
    [
        (llada, None, True),
        pytest.param(moe, "int8", False, marks=pytest.mark.slow),
        pytest.param(llada2, None, False, marks=pytest.mark.slow),
    ],
)
def test_an_update_is_a_reload_on_every_shard(
    make: Callable[[Path, int], Path], quantize: str | None, adapted: bool, tmp_path: Path
) -> None:
    old, new = make(tmp_path / "old", 0), make(tmp_path / "new", 1)
    how: dict[str, Any] = {"device": "cpu", "dtype": "float32", "quantize": quantize, "shards": 2}
    if adapted:
        how["adapter"] = str(write_adapter(tmp_path / "adapter", {OUT: (32, 32)}))
    fresh = load(new, **how)
    wanted = logits(fresh)
    fresh.close()
    changed = load(old, **how)
    try:
        before = logits(changed)
        bad = {**load_file(new / "model.safetensors")}
        name = next(iter(bad))
        with pytest.raises(BadModel, match="NaN"):
            changed.update_weights({**bad, name: bad[name] * torch.nan})
        with pytest.raises(BadModel, match="has no tensor"):
            changed.update_weights([*bad.items(), ("x", bad[name])])
        assert all(torch.equal(*pair) for pair in zip(logits(changed), before, strict=True))
        changed.update_weights(new)
        assert all(torch.equal(*pair) for pair in zip(logits(changed), wanted, strict=True))
    finally:
        changed.close()


def test_what_another_shard_cannot_take_changes_nothing(tmp_path: Path) -> None:
    """A value that float16 cannot hold, in the rows of the second shard alone."""
    folder = llada(tmp_path / "old", 0)
    name = "model.transformer.blocks.0.up_proj.weight"
    model = load(folder, device="cpu", dtype="float32", shards=2)
    try:
        before = logits(model)
        tensor = load_file(folder / "model.safetensors")[name].double()
        tensor[-1] = 1e300
        with pytest.raises(BadModel, match="Another shard cannot take over these weights"):
            model.update_weights({name: tensor})
        assert all(torch.equal(*pair) for pair in zip(logits(model), before, strict=True))
    finally:
        model.close()
