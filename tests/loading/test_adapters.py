"""LoRA adapters merged while a model is read, against PEFT's own merging."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from archer.errors import BadRequest
from archer.loading.adapters import parsed
from archer.loading.checkpoint import load_network, read_folder
from archer.loading.slots import named_tensors
from archer.loading.source import Source
from archer.model import Model, load
from archer.network.differentiable import hidden_states
from archer.network.network import Transformer, kept_by
from archer.network.shape import Scheme
from archer.network.shard import Shard
from archer.runs.manifest import model_identity
from support.folders import make_a2d, make_dream, make_llada, make_llada_moe, write_adapter

MAKE: dict[str, Callable[..., Path]] = {
    "llada": make_llada,
    "dream": make_dream,
    "a2d": partial(make_a2d, tokenizer=False, mask_token_id=260),
    "llada-moe": make_llada_moe,
}
TARGETS = {
    "llada": ["q_proj", "k_proj", "v_proj", "attn_out", "ff_proj", "up_proj", "ff_out"],
    "dream": ["q_proj", "v_proj", "o_proj", "gate_proj", "down_proj", "lm_head"],
    "a2d": ["q_proj", "k_proj", "o_proj", "up_proj", "down_proj"],
    "llada-moe": ["q_proj", "o_proj", "gate_proj", "down_proj"],
}


class Vector(nn.Module):
    """A norm, as far as its name goes."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)


def modules(tensors: dict[str, Tensor]) -> nn.Module:
    """The checkpoint as a tree of torch's own modules, which is all that PEFT looks at."""
    root = nn.Module()
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    for name, weight in tensors.items():
        path, _, kind = name.rpartition(".")
        if kind == "bias":
            continue
        *above, last = path.split(".")
        at = root
        for step in above:
            if not hasattr(at, step):
                at.add_module(step, nn.Module())
            at = getattr(at, step)
        made: nn.Module = Vector(weight)
        if "embed" in last or last == "wte":
            made = nn.Embedding.from_pretrained(weight)
        elif weight.dim() == 2:
            bias = tensors.get(f"{path}.bias")
            made = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
            made.weight.data = weight
            if bias is not None:
                made.bias.data = bias
        at.add_module(last, made)
    return root


def drawn_config(draw: random.Random, family: str) -> dict[str, Any]:
    targets = draw.sample(TARGETS[family], draw.randint(1, 3))
    rank = draw.choice([1, 2, 5])
    config: dict[str, Any] = {
        "r": rank,
        "lora_alpha": draw.choice([1, 4, 8]),
        "target_modules": targets,
        "use_rslora": draw.random() < 0.4,
        "use_dora": draw.random() < 0.4,
        "bias": draw.choice(["none", "all", "lora_only"]) if family == "dream" else "none",
    }
    if draw.random() < 0.4:
        config["rank_pattern"] = {targets[0]: rank + 1}
        config["alpha_pattern"] = {targets[0]: 3}
    if draw.random() < 0.4 and not config["use_dora"]:
        config["modules_to_save"] = ["ln_f" if family == "llada" else "norm"]
    if family == "dream" and not config["use_dora"] and draw.random() < 0.3:
        config["target_modules"] = ["q_proj", "v_proj"]
        config["lora_bias"] = config["bias"] == "none"
    if draw.random() < 0.3:
        config["target_modules"] = rf".*\.({'|'.join(config['target_modules'])})"
    return config


def trained(base: nn.Module, config: dict[str, Any], seed: int) -> Any:
    """PEFT's model with random halves, as if it had been trained. Its import alone takes seconds."""
    peft = pytest.importorskip("peft")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = peft.get_peft_model(base, peft.LoraConfig(**config))
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            drawn = torch.randn(parameter.shape, generator=generator) * 0.2
            parameter.data = parameter.data + drawn if "magnitude" in name else drawn
    return model


def saved(model: Any, folder: Path) -> None:
    """PEFT warns of embeddings that it saves, and of biases, which it takes for cut matrices."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(folder)


def merged(model: Any) -> dict[str, Tensor]:
    """PEFT's own merging, by the names of the checkpoint."""
    return dict(model.merge_and_unload().state_dict())


def ours(folder: Path, *adapters: str, **how: Any) -> dict[str, Tensor]:
    source = Source(folder, adapter=adapters, device="cpu", dtype="float32", **how)
    read = source.folder()
    return named_tensors(source.network(read), read.architecture)


@pytest.mark.parametrize("family", MAKE)
@pytest.mark.parametrize("seed", range(5))
def test_merged_weights_are_those_of_peft(family: str, seed: int, tmp_path: Path) -> None:
    draw = random.Random(f"{family} {seed}")
    folder = MAKE[family](tmp_path / "model", seed=seed)
    base = load_file(folder / "model.safetensors")
    model = trained(modules(base), drawn_config(draw, family), seed)
    saved(model, tmp_path / "adapter")
    found, expected = ours(folder, str(tmp_path / "adapter")), merged(model)
    assert found.keys() == expected.keys()
    changed = [name for name in found if not torch.equal(found[name], base[name])]
    assert changed
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-5, atol=1e-6)


def test_a_flag_for_transposed_layers_changes_nothing_as_in_peft(tmp_path: Path) -> None:
    """PEFT takes it back for linear layers, and there are no others."""
    peft = pytest.importorskip("peft")
    folder = MAKE["a2d"](tmp_path / "model")
    base = load_file(folder / "model.safetensors")
    adapter = plain_adapter(tmp_path / "adapter", fan_in_fan_out=True)
    with pytest.warns(UserWarning, match="fan_in_fan_out"):
        expected = merged(peft.PeftModel.from_pretrained(modules(base), adapter))
    found = ours(folder, adapter)
    assert not torch.equal(found[f"{Q}.weight"], base[f"{Q}.weight"])
    for name in (f"{Q}.weight", f"{DOWN}.weight"):
        torch.testing.assert_close(found[name], expected[name], rtol=1e-5, atol=1e-6)


def test_an_embedding_is_merged_too(tmp_path: Path) -> None:
    """With a tied head it is the head as well, as in PEFT."""
    folder = MAKE["a2d"](tmp_path / "model")
    config = {"r": 2, "lora_alpha": 4, "target_modules": ["embed_tokens"]}
    model = trained(modules(load_file(folder / "model.safetensors")), config, 1)
    saved(model, tmp_path / "adapter")
    found, expected = ours(folder, str(tmp_path / "adapter")), merged(model)
    name = "model.embed_tokens.weight"
    torch.testing.assert_close(found[name], expected[name], rtol=1e-5, atol=1e-6)


Q, DOWN = "model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj"


def plain_adapter(folder: Path, **changes: Any) -> str:
    return str(write_adapter(folder, {Q: (64, 32), DOWN: (32, 48)}, **changes))


def test_several_adapters_add_up_by_their_weights(tmp_path: Path) -> None:
    folder = MAKE["a2d"](tmp_path / "model")
    one, two = plain_adapter(tmp_path / "a"), plain_adapter(tmp_path / "b", lora_alpha=6)
    base, both = ours(folder), ours(folder, f"{one}@0.5", f"{two}@-1")
    first, second = ours(folder, one), ours(folder, two)
    for name, weight in base.items():
        expected = weight + 0.5 * (first[name] - weight) - (second[name] - weight)
        torch.testing.assert_close(both[name], expected, rtol=1e-5, atol=1e-6)


def test_quantised_and_divided_weights_are_the_merged_ones(tmp_path: Path) -> None:
    """What is quantised, and what a shard keeps, is a part of the merged matrix."""
    folder = MAKE["a2d"](
        tmp_path / "model", num_hidden_layers=3, layer_types=["full_attention"] * 3
    )
    adapter = plain_adapter(tmp_path / "a")
    source = Source(folder, adapter=adapter, device="cpu", dtype="float32")
    read = source.folder()
    whole = source.network(read)

    def network(**how: Any) -> Transformer:
        return load_network(read, device=torch.device("cpu"), dtype=torch.float32, **how)

    eight, plain = network(scheme=Scheme.INT8).layer(1), network().layer(1)
    assert plain.down is not None
    assert eight.down is not None
    assert eight.down_scale is not None
    made = eight.down.float().unflatten(-1, (eight.down_scale.shape[-1], -1))
    made = (made * eight.down_scale[..., None].float()).flatten(-2)
    assert (made - plain.down).abs().max() <= eight.down_scale.float().max()
    half = network(shard=Shard(1, 2)).layer(1)
    assert half.down is not None
    assert torch.equal(half.down, plain.down[:, 24:])
    queries = network(shard=Shard(1, 2)).layer(0).qkv[:32]
    assert torch.equal(queries, whole.layer(0).qkv[32:64])


@pytest.mark.usefixtures("whole_numbers")
def test_products_in_whole_numbers_are_of_the_merged_weights(tmp_path: Path) -> None:
    """Of an embedding that is the head as well: both are merged before either is rounded."""
    folder = MAKE["a2d"](tmp_path / "model")
    config = {"r": 2, "lora_alpha": 4, "target_modules": ["q_proj", "down_proj", "embed_tokens"]}
    saved(
        trained(modules(load_file(folder / "model.safetensors")), config, 1), tmp_path / "adapter"
    )
    source = Source(folder, adapter=str(tmp_path / "adapter"), device="cpu", dtype="float32")
    read = source.folder()
    twin = kept_by(source.network(read), Scheme.W8A8_HEAD, packed=True)
    eight = replace(source, quantize="w8a8-head").network(read)
    plain = replace(source, adapter=(), quantize="w8a8-head")
    bare = plain.network(plain.folder())
    tokens = torch.arange(12)
    with torch.inference_mode():
        ours, theirs, without = (
            each.score(hidden_states(each, each.embed(tokens)[None])[0])
            for each in (eight, twin, bare)
        )
    assert torch.equal(ours, theirs)
    assert not torch.equal(ours, without)


def test_an_adapter_is_part_of_what_a_run_is(tmp_path: Path) -> None:
    """A run cannot be resumed without it, and a completion names it."""
    folder = MAKE["a2d"](tmp_path / "model")
    one, two = plain_adapter(tmp_path / "a"), plain_adapter(tmp_path / "b", lora_alpha=6)
    found = [
        model_identity(Model.outline(Source(folder, adapter=each)), files=False)
        for each in ((), one, two, f"{one}@0.5")
    ]
    assert len({str(each) for each in found}) == 4
    model = load(folder, adapter=one)
    label = f"+adapter-{model.folder.adapters[0][:8]}"
    assert model.request([5, 6], length=4).language.model.endswith(label)
    pinned = Source(folder, adapter=one).pinned(model.folder)
    assert pinned.adapters == (str(Path(one).resolve()),)


def test_a_target_that_hits_lladas_head_is_merged_there_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_llada(tmp_path / "model")
    adapter = write_adapter(tmp_path / "a", {"model.transformer.ff_out": (288, 32)})
    found = ours(folder, str(adapter))
    base = load_file(folder / "model.safetensors")
    assert not torch.equal(
        found["model.transformer.ff_out.weight"], base["model.transformer.ff_out.weight"]
    )
    assert "changes the vocabulary head" in caplog.text


def test_adapters_for_another_attention_are_refused_by_name(tmp_path: Path) -> None:
    folder = MAKE["a2d"](tmp_path / "model")
    adapter = plain_adapter(tmp_path / "D2F_Dream_Lora")
    with pytest.raises(BadRequest, match="trained for block-causal attention"):
        ours(folder, adapter)
    assert ours(folder, adapter, force_adapter=True).keys() == ours(folder).keys()


@pytest.mark.parametrize("spec", ["folder@nan", "folder@1e9", "@0.5"])
def test_a_weight_that_is_none_is_refused(spec: str) -> None:
    with pytest.raises(BadRequest, match="The weight of an adapter is a number"):
        parsed(spec)


def test_a_name_with_an_at_is_a_name() -> None:
    assert parsed("me@home/adapter") == ("me@home/adapter", 1.0)
    assert parsed("a/b@0.25") == ("a/b", 0.25)


def test_a_folder_without_an_adapter_is_refused(tmp_path: Path) -> None:
    folder = MAKE["a2d"](tmp_path / "model")
    with pytest.raises(Exception, match=r"holds no adapter_config\.json"):
        ours(folder, str(tmp_path))
    assert read_folder(folder).adapters == ()
