"""config.json: nothing is guessed."""

from typing import Any

import pytest

from archer.errors import BadModel
from archer.loading.architecture import Architecture
from archer.loading.families.dream import DREAM
from archer.loading.families.llada import LLADA
from archer.loading.model_config import parse_config
from support.folders import Config, dream_config, llada_config

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
