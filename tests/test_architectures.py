"""The table of model families against the files of the real checkpoints."""

import json
import math
from dataclasses import asdict

import pytest

from archer.loading.architectures import ARCHITECTURES, DREAM, LLADA, Architecture
from archer.loading.checkpoint import slots_of
from archer.loading.model_config import ModelConfig, parse_config
from conftest import shared

REAL = {LLADA.name: "llada-8b-instruct-PARTIAL", DREAM.name: "dream-v0-instruct-7b"}
ROWS = pytest.mark.parametrize("row", ARCHITECTURES.values(), ids=lambda row: row.name)


def real_model(row: Architecture) -> ModelConfig:
    text = shared("data", "tokenizers", REAL[row.name], "config.json").read_text()
    return parse_config(json.loads(text), "config.json")


def test_llada_8b() -> None:
    model = real_model(LLADA)
    assert model.architecture is LLADA
    assert (model.mask, model.eos) == (126336, (126081,))
    assert asdict(model.shape) == {
        "layers": 32,
        "width": 4096,
        "heads": 32,
        "kv_heads": 32,
        "head_dim": 128,
        "inner": 12288,
        "vocabulary": 126464,
        "norm_epsilon": 1e-5,
        "rope_theta": 500000.0,
        "qkv_bias": False,
        "rope_float32": True,
        "max_positions": 4096,
    }


def test_dream_7b() -> None:
    model = real_model(DREAM)
    assert model.architecture is DREAM
    assert (model.mask, model.eos) == (151666, (151643,))
    assert asdict(model.shape) == {
        "layers": 28,
        "width": 3584,
        "heads": 28,
        "kv_heads": 4,
        "head_dim": 128,
        "inner": 18944,
        "vocabulary": 152064,
        "norm_epsilon": 1e-6,
        "rope_theta": 1000000.0,
        "qkv_bias": True,
        "rope_float32": False,
        "max_positions": 131072,
    }


@ROWS
def test_tensor_names_are_those_of_the_real_index(row: Architecture) -> None:
    path = shared("data", "tokenizers", REAL[row.name], "model.safetensors.index.json")
    index = json.loads(path.read_text())
    slots = slots_of(row, real_model(row).shape)
    assert slots.keys() == index["weight_map"].keys()
    stored = sum(math.prod(slot.shape) for slot in slots.values()) * 2
    assert stored == index["metadata"]["total_size"]


@ROWS
def test_every_row_of_every_parameter_is_filled_once(row: Architecture) -> None:
    shape = real_model(row).shape
    rows: dict[str, list[int]] = {}
    for slot in slots_of(row, shape).values():
        rows.setdefault(slot.parameter, []).extend(range(slot.row, slot.row + slot.shape[0]))
    assert all(sorted(each) == list(range(len(each))) for each in rows.values())


def test_known_models() -> None:
    ids = [model.id for row in ARCHITECTURES.values() for model in row.models]
    assert len(ids) == len(set(ids)) == 10
    assert "GSAI-ML/LLaDA-8B-Instruct" in ids
    assert "apple/DiffuCoder-7B-cpGRPO" in ids


def test_only_dream_is_shifted_and_was_trained_on_less_than_it_claims() -> None:
    assert (LLADA.shift, LLADA.trained_window) == (False, None)
    assert (DREAM.shift, DREAM.trained_window) == (True, 2048)
