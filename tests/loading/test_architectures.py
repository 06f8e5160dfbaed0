"""The table of model families against real checkpoints; of a config.json nothing is guessed."""

import json
import math
import re
from dataclasses import fields, replace
from typing import Any

import pytest
import torch

from archer.costs.shapes import shapes
from archer.errors import BadModel
from archer.loading.architecture import Architecture
from archer.loading.architectures import known_models
from archer.loading.families.dream import DREAM
from archer.loading.families.llada import LLADA
from archer.loading.families.llada2 import LLADA2
from archer.loading.families.llada_moe import LLADA_MOE
from archer.loading.model_config import ModelConfig, Provenance, config_for, parse_config
from archer.loading.slots import slots_of
from archer.network.network import Transformer
from archer.network.shape import Blocks
from conftest import REPOSITORY, shared
from support.folders import Config, dream_config, llada_config, sdar_config

REAL = {LLADA.name: "llada-8b-instruct-PARTIAL", DREAM.name: "dream-v0-instruct-7b"}
ROWS = pytest.mark.parametrize("row", [LLADA, DREAM], ids=lambda row: row.name)
PUBLISHED = {
    "llada-moe-7b": (LLADA_MOE, 3_219, 7_356_880_896),
    "llada2-mini": (LLADA2, 14_813, 16_255_643_392),
}


def real_model(row: Architecture) -> ModelConfig:
    text = shared("data", "tokenizers", REAL[row.name], "config.json").read_text()
    return parse_config(json.loads(text), "config.json")


@pytest.mark.parametrize(
    ("row", "name", "mask", "end"),
    [(LLADA, "llada-8b", 126336, 126081), (DREAM, "dream-7b", 151666, 151643)],
)
def test_the_published_configs_have_the_known_shapes(
    row: Architecture, name: str, mask: int, end: int
) -> None:
    model = real_model(row)
    assert model.architecture is row
    assert (model.mask, model.eos) == (mask, (end,))
    assert model.shape == shapes()[name].shape


@pytest.mark.parametrize("name", PUBLISHED)
def test_tensors_of_the_mixtures_are_as_many_as_published(name: str) -> None:
    row, names, parameters = PUBLISHED[name]
    slots = slots_of(row, shapes()[name].shape)
    assert len(slots) == names
    assert sum(math.prod(slot.shape) for slot in slots.values()) == parameters


@pytest.mark.parametrize(
    ("size", "names", "parameters"),
    [("mini", 14_813, 16_255_643_392), ("flash", 24_161, 102_889_705_216)],
)
def test_the_published_configs_of_llada2(size: str, names: int, parameters: int) -> None:
    """They lack the mask and the end, constants of the family; their model_type is the training code's."""
    text = shared("data", "configs", f"llada2_{size}.dFactory.json").read_text()
    model = parse_config(json.loads(text) | {"model_type": "llada2_moe"}, "config.json")
    slots = slots_of(model.architecture, model.shape)
    assert (len(slots), sum(math.prod(slot.shape) for slot in slots.values())) == (
        names,
        parameters,
    )
    assert (model.mask, model.eos) == (156895, (156892,))
    if size == "mini":
        assert model.shape == shapes()["llada2-mini"].shape


@pytest.mark.parametrize("name", shapes())
def test_a_written_config_says_what_the_shape_says(name: str) -> None:
    known = shapes()[name]
    config = config_for(known.architecture, known.shape, known.mask, known.eos)
    model = parse_config(config, "config.json")
    assert model.shape == known.shape
    assert (model.mask, model.eos) == (known.mask, (known.eos,))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_config_without_mask_and_end_gets_those_of_the_family(name: str) -> None:
    """And one that has them keeps its own."""
    known = shapes()[name]
    config = config_for(known.architecture, known.shape, 7, 9)
    own = parse_config(config, "config.json")
    assert (own.mask, own.eos) == (7, (9,))
    bare = {
        key: value for key, value in config.items() if key not in ("mask_token_id", "eos_token_id")
    }
    model = parse_config(bare, "config.json")
    assert (model.mask, model.eos) == (156895, (156892,))


@pytest.mark.parametrize("name", ["llada-8b", "dream-7b", *PUBLISHED])
def test_every_row_of_every_parameter_is_filled_once(name: str) -> None:
    known = shapes()[name]
    shape = replace(known.shape, layers=2)
    filled: dict[tuple[str, int | None], list[int]] = {}
    for slot in slots_of(known.architecture, shape).values():
        rows = filled.setdefault((slot.parameter, slot.expert), [])
        rows.extend(range(slot.row, slot.row + slot.shape[0]))
    assert all(sorted(each) == list(range(len(each))) for each in filled.values())
    experts = {expert for parameter, expert in filled if "expert" in parameter}
    assert experts == (set(range(shape.experts.count)) if shape.experts else set())


@ROWS
def test_tensor_names_are_those_of_the_real_index(row: Architecture) -> None:
    path = shared("data", "tokenizers", REAL[row.name], "model.safetensors.index.json")
    index = json.loads(path.read_text())
    slots = slots_of(row, real_model(row).shape)
    assert slots.keys() == index["weight_map"].keys()
    stored = sum(math.prod(slot.shape) for slot in slots.values()) * 2
    assert stored == index["metadata"]["total_size"]


@pytest.mark.parametrize(
    ("name", "names", "parameters", "mask"),
    [
        ("a2d-qwen3-0.6b", 310, 596_049_920, 151669),
        ("a2d-qwen2-0.5b", 290, 494_032_768, 151665),
        ("illada-8b", 290, 7_615_025_152, 5),
        ("sdar-4b", 399, 4_411_424_256, 151669),
    ],
)
def test_the_models_of_2026_have_as_many_parameters_as_published(
    name: str, names: int, parameters: int, mask: int
) -> None:
    """And, without one in their config, each family's own mask: two of them share a vocabulary size."""
    known = shapes()[name]
    slots = slots_of(known.architecture, known.shape)
    assert len(slots) == names
    assert sum(math.prod(slot.shape) for slot in slots.values()) == parameters
    network = Transformer(known.shape, device=torch.device("meta"))
    assert sum(each.numel() for each in network.parameters()) == parameters
    assert known.mask == mask
    assert parameters in [each.parameters for each in known.architecture.models]


def test_the_real_config_of_sdar() -> None:
    text = shared("data", "tokenizers", "sdar-4b-chat", "config.json").read_text()
    model = parse_config(json.loads(text), "config.json")
    assert model.shape == replace(shapes()["sdar-4b"].shape, attention=Blocks(4))
    assert model.mask == 151669
    index = shared("data", "tokenizers", "sdar-4b-chat", "model.safetensors.index.json")
    stored = json.loads(index.read_text())["weight_map"]
    assert slots_of(model.architecture, model.shape).keys() == stored.keys()


@pytest.mark.parametrize(
    ("name", "block"),
    [
        ("JetLM/SDAR-1.7B-Chat", 4),
        ("JetLM/SDAR-8B-Chat-b32", 32),
        ("SDAR-8B-Chat-b16", 16),
        ("MBD-SDAR-8B-Chat-b64", 64),
    ],
)
def test_a_block_that_the_config_lacks_is_that_of_the_released_model(name: str, block: int) -> None:
    """Its name ends with it, also that of a local folder; what the config says goes first."""
    config = sdar_config()
    given = parse_config(config | {"block_size": 8}, "config.json", Provenance(name))
    assert given.shape.attention == Blocks(8)
    del config["block_size"]
    model = parse_config(config, "config.json", Provenance(name))
    assert model.shape.attention == Blocks(block)


@pytest.mark.parametrize("name", ["SDAR-8B-Chat", "b32", "SDAR-b32-Chat", "SDAR-8B-Chat-b99999"])
def test_a_name_that_does_not_end_with_a_block_says_none(name: str) -> None:
    config = {key: value for key, value in sdar_config().items() if key != "block_size"}
    with pytest.raises(BadModel, match=r'"block_size" is missing, .* or add the key\.'):
        parse_config(config, "config.json", Provenance(name))


def test_known_models() -> None:
    ids = [model.id for _, model in known_models()]
    assert len(ids) == len(set(ids)) == 35


def test_the_page_about_backbones_names_every_field_of_a_row() -> None:
    page = (REPOSITORY / "docs" / "add-a-backbone.md").read_text(encoding="utf-8")
    table = page[page.index("## What a row says") : page.index("## What the loader checks")]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert {field.name for field in fields(Architecture)} <= named


ALWAYS = ["architectures", "rope_theta", "mask_token_id", "eos_token_id"]


def needed(row: Architecture) -> list[str]:
    """Every key whose absence must be refused."""
    equal = [key for pair in row.equal for key in pair]
    named = {key for key in vars(row.keys).values() if isinstance(key, str)}
    return sorted({*ALWAYS, *named, *row.fixed, *equal})


BOTH = [(LLADA, llada_config()), (DREAM, dream_config())]
NEEDED = [
    pytest.param(full, key, id=f"{row.name}-{key}") for row, full in BOTH for key in needed(row)
]


@pytest.mark.parametrize(("full", "key"), NEEDED)
def test_a_missing_key_is_refused_by_name(full: Config, key: str) -> None:
    partial = {name: value for name, value in full.items() if name != key}
    with pytest.raises(BadModel, match=f'config.json: the key "{key}" is missing'):
        parse_config(partial, "config.json")


@pytest.mark.parametrize("value", [None, True, "4", 4.0, [4], {}, 0, -4, 1 << 40])
@pytest.mark.parametrize("key", ["n_layers", "d_model", "n_heads", "n_kv_heads", "vocab_size"])
def test_a_size_must_be_a_positive_whole_number(key: str, value: Any) -> None:
    same = {"embedding_size": value} if key == "vocab_size" else {}
    with pytest.raises(BadModel, match=f'"{key}" must be a whole number from 1 to'):
        parse_config(llada_config(**{key: value}, **same), "config.json")


@pytest.mark.parametrize("value", [None, True, "1", [1.0], 0, -1e-5, float("nan"), float("inf")])
@pytest.mark.parametrize("key", ["rms_norm_eps", "rope_theta"])
def test_a_real_must_be_positive_and_finite(key: str, value: Any) -> None:
    with pytest.raises(BadModel, match=f'"{key}" must be a positive number'):
        parse_config(llada_config(**{key: value}), "config.json")


@pytest.mark.parametrize("row", [LLADA, DREAM], ids=lambda row: row.name)
def test_every_fixed_setting_is_enforced(row: Architecture) -> None:
    full = llada_config() if row is LLADA else dream_config()
    for key in [*row.fixed, *row.if_given]:
        with pytest.raises(BadModel, match=f'"{key}" is "other"; only .* is supported'):
            parse_config(full | {key: "other"}, "config.json")


@pytest.mark.parametrize("key", ["use_mrope", "rope_scaling", "quantization_config"])
def test_a_switch_for_something_unknown_may_be_absent(key: str) -> None:
    partial = {name: value for name, value in dream_config().items() if name != key}
    assert parse_config(partial, "c") == parse_config(dream_config(), "c")


@pytest.mark.parametrize("both", [False, True])
def test_rope_theta_in_its_newer_home(both: bool) -> None:
    config = dream_config(rope_parameters={"rope_type": "default", "rope_theta": 1000000})
    del config["rope_scaling"]
    if not both:
        del config["rope_theta"]
    assert parse_config(config, "config.json").shape.rope_theta == 1000000.0


def test_several_ends() -> None:
    assert parse_config(llada_config(eos_token_id=[1, 2]), "config.json").eos == (1, 2)


def test_remote_code_and_unknown_keys_are_ignored() -> None:
    config = llada_config(auto_map={"AutoModel": "modeling_x.Model"}, anything=float("nan"))
    assert parse_config(config, "c") == parse_config(llada_config(), "c")


def test_the_architecture_decides_and_not_the_model_type() -> None:
    assert parse_config(dream_config(model_type="llada"), "c").architecture is DREAM


@pytest.mark.parametrize("kind", ["qwen3", "", None, 7, ["llada"], {"a": 1}, "LLADA", "llada\n"])
def test_an_unknown_model_type_is_refused(kind: object) -> None:
    with pytest.raises(BadModel, match=r'"model_type" is .* supported are llada, Dream'):
        parse_config(llada_config(model_type=kind), "c")


def test_a_missing_model_type_is_no_fault() -> None:
    config = llada_config()
    del config["model_type"]
    assert parse_config(config, "c") == parse_config(llada_config(), "c")
