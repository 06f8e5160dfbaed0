"""Folders of the families of 2026 and of adapters that are refused."""

from functools import partial
from pathlib import Path
from typing import Any

import torch

from support.folders import (
    make_a2d,
    make_a2d_qwen2,
    make_coda,
    make_illada,
    make_open_dcoder,
    make_rnd1,
    make_sdar,
    write_adapter,
)
from support.spoil import (
    Case,
    Spoil,
    both,
    config,
    content,
    edited,
    link_outside,
    removed,
    tensors,
    without,
)

FIRST = "model.layers.0.self_attn.q_proj"
DOWN, UP = (f"base_model.model.{FIRST}.lora_{half}.weight" for half in "AB")
NOT_MASK = both(
    edited("tokenizer.json", lambda held: held["added_tokens"].pop(4)),
    removed("tokenizer_config.json"),
)


def make_adapted(folder: Path) -> Path:
    """A model with an adapter beside it."""
    make_a2d(folder)
    return write_adapter(folder, {FIRST: (64, 32), "model.layers.1.mlp.down_proj": (32, 48)})


A2D = partial(Case, make=make_a2d)
Sdar = partial(Case, make=make_sdar)
Adapted = partial(Case, make=make_adapted)
Qwen2 = partial(Case, make=make_a2d_qwen2)
Coda = partial(Case, make=make_coda)
Illada = partial(Case, make=make_illada)
OpenDcoder = partial(Case, make=make_open_dcoder)
Rnd1 = partial(Case, make=make_rnd1)


def adapter(**changes: Any) -> Spoil:
    return edited("adapter_config.json", lambda held: held.update(changes))


def adapter_tensors(**changes: Any) -> Spoil:
    """A module's halves changed: `down` and `up`, or others by name; None takes one away."""

    def change(held: dict[str, torch.Tensor]) -> None:
        for name, value in changes.items():
            full = {"down": DOWN, "up": UP}.get(name, name)
            held.pop(full, None)
            if value is not None:
                held[full] = value

    return tensors(change, "adapter_model.safetensors")


def extra(name: str, *size: int) -> Spoil:
    return adapter_tensors(**{name: torch.ones(size)})


CASES = [
    A2D(
        "a2d mask nowhere",
        NOT_MASK,
        '"mask_token_id" is missing, and the ids of A2DQwen3LMHeadModel',
    ),
    A2D("a2d no end", without("eos_token_id"), '"eos_token_id" is missing, and the ids'),
    A2D("a2d mask is the end", config(mask_token_id=258), "which eos_token_id names too"),
    A2D("a2d mask beyond", config(mask_token_id=288), "a token id from 0 to 287"),
    A2D("a2d no tie", without("tie_word_embeddings"), '"tie_word_embeddings" is missing'),
    A2D("a2d tie a word", config(tie_word_embeddings="yes"), "must be true or false"),
    A2D("a2d untied without a head", config(tie_word_embeddings=False), '"lm_head.weight"'),
    A2D(
        "a2d tied and different",
        tensors(lambda held: held.update({"lm_head.weight": torch.ones(288, 32)})),
        "says that head and embedding are the same",
    ),
    A2D(
        "a2d tied, another shape",
        tensors(lambda held: held.update({"lm_head.weight": torch.ones(2, 32)})),
        "says that head and embedding are the same",
    ),
    A2D("a2d sliding", config(use_sliding_window=True), '"use_sliding_window" is true'),
    A2D("a2d window", config(sliding_window=4096), '"sliding_window" is 4096'),
    A2D("a2d biased", config(attention_bias=True), '"attention_bias" is true'),
    A2D("a2d local layers", config(layer_types=["full_attention", "sliding_attention"]), "2 times"),
    A2D("a2d long rope", config(rope_scaling={"type": "yarn"}), '"rope_scaling" is an object'),
    A2D("a2d odd head", config(head_dim=15), "must be even"),
    A2D("a2d no head size", without("head_dim"), '"head_dim" is missing'),
    A2D("a2d quantised", config(quantization_config={"bits": 4}), "is an object; only null"),
    A2D("a2d other kind", config(model_type="qwen3"), '"model_type" is "qwen3"'),
    A2D(
        "a2d no q norm",
        tensors(lambda h: h.pop("model.layers.1.self_attn.q_norm.weight")),
        "missing",
    ),
    A2D(
        "an autoregressive name",
        config(architectures=["Qwen2ForCausalLM"], model_type="qwen2"),
        "is the name of an autoregressive model",
    ),
    A2D(
        "a2d mask a number",
        edited("tokenizer_config.json", lambda h: h.update(mask_token=4)),
        "text",
    ),
    Sdar("sdar no block", without("block_size"), '"block_size" is missing'),
    Sdar("sdar block zero", config(block_size=0), "whole number from 1 to 1024"),
    Sdar("sdar block a word", config(block_size="4"), "whole number from 1 to 1024"),
    Sdar("sdar block huge", config(block_size=4096), "whole number from 1 to 1024"),
    Sdar("sdar no mask", without("mask_token_id"), '"mask_token_id" is missing'),
    Sdar(
        "sdar head lost",
        tensors(lambda held: held.pop("lm_head.weight")),
        "missing from the weights",
    ),
    Qwen2(
        "a2d-qwen2 no bias",
        tensors(lambda held: held.pop("model.layers.0.self_attn.k_proj.bias")),
        "missing from the weights",
    ),
    Qwen2(
        "a2d-qwen2 with a norm of qwen3",
        tensors(lambda h: h.update({"model.layers.0.self_attn.q_norm.weight": torch.ones(8)})),
        "of no use to this model",
    ),
    Qwen2("a2d-qwen2 heads uneven", config(num_attention_heads=5), "must be an even multiple of"),
    Qwen2("a2d-qwen2 mask nowhere", NOT_MASK, "the ids of A2DQwen2LMHeadModel"),
    OpenDcoder("open-dcoder mask nowhere", NOT_MASK, "is the name of an autoregressive model"),
    OpenDcoder(
        "open-dcoder mask beyond",
        edited("tokenizer.json", lambda held: held["added_tokens"][4].update(id=400)),
        "a token id from 0 to 287",
    ),
    Illada("illada no mask", without("mask_token_id"), "the ids of ILLaDAForCausalLM are known"),
    Illada("illada layer norm", config(layer_norm_eps=1e-5), '"layer_norm_eps" is 1e-05'),
    Illada("illada biased", config(mlp_bias=True), '"mlp_bias" is true'),
    Illada(
        "illada long rope",
        config(rope_scaling={"rope_type": "linear", "factor": 2.0}),
        '"rope_scaling" is an object',
    ),
    Illada("illada other activation", config(hidden_act="gelu"), '"hidden_act" is "gelu"'),
    Illada(
        "illada tied and different",
        tensors(lambda held: held.update({"lm_head.weight": torch.ones(288, 32)})),
        "says that head and embedding are the same",
    ),
    Coda("coda sliding", config(use_sliding_window=True), '"use_sliding_window" is true'),
    Coda("coda no mask", without("mask_token_id"), "the ids of CoDALanguageModel are known"),
    Coda(
        "coda says tied, has another head",
        config(tie_word_embeddings=True),
        "says that head and embedding are the same",
    ),
    Coda(
        "coda says untied, has no head",
        both(config(tie_word_embeddings=False), tensors(lambda held: held.pop("lm_head.weight"))),
        '"lm_head.weight"',
    ),
    Rnd1("rnd1 not renormalised", config(norm_topk_prob=False), '"norm_topk_prob" is false'),
    Rnd1("rnd1 some layers dense", config(mlp_only_layers=[0]), '"mlp_only_layers" is a list'),
    Rnd1("rnd1 every second layer", config(decoder_sparse_step=2), '"decoder_sparse_step" is 2'),
    Rnd1("rnd1 too few experts", config(num_experts_per_tok=7), "whole number from 1 to 6"),
    Rnd1(
        "rnd1 an expert lost",
        tensors(lambda held: held.pop("model.layers.1.mlp.experts.3.up_proj.weight")),
        "missing from the weights",
    ),
    Rnd1(
        "rnd1 an expert too many",
        tensors(
            lambda h: h.update({"model.layers.1.mlp.experts.6.up_proj.weight": torch.ones(12, 32)})
        ),
        "of no use to this model",
    ),
    Adapted("adapter of another kind", adapter(peft_type="IA3"), "only LORA is merged"),
    Adapted("adapter config a list", content("adapter_config.json", b"[]"), "one JSON object"),
    Adapted("adapter config too large", content("adapter_config.json", b" " * (1 << 21)), "larger"),
    Adapted("adapter rank true", adapter(r=True), "whole number from 1"),
    Adapted("adapter rank missing", adapter(r=None), "whole number from 1"),
    Adapted("adapter rank a bomb", adapter(r=1 << 40), "whole number from 1"),
    Adapted("adapter alpha a bomb", adapter(lora_alpha=1e300), "must be a number up to"),
    Adapted("adapter alpha NaN", adapter(lora_alpha=float("nan")), "must be a number up to"),
    Adapted("adapter corda", adapter(corda_config={"x": 1}), '"corda_config" is an object'),
    Adapted("adapter of parameters", adapter(target_parameters=["w"]), '"target_parameters"'),
    Adapted("adapter loftq", adapter(init_lora_weights="loftq"), "changes the model's own weights"),
    Adapted("adapter alphas a list", adapter(alpha_pattern=[2]), "object of pattern -> number"),
    Adapted(
        "adapter alpha of a module", adapter(alpha_pattern={"q_proj": None}), "must be a number up"
    ),
    Adapted(
        "adapter up too tall", adapter_tensors(up=torch.ones(65, 2)), "is [65, 2], and [64, 2]"
    ),
    Adapted("adapter of integers", adapter_tensors(up=torch.ones(64, 2).long()), "only F64, F32"),
    Adapted("adapter infinite", adapter_tensors(down=torch.full((2, 32), torch.inf)), "makes NaN"),
    Adapted(
        "adapter of an embedding, wrong shape",
        both(
            extra("base_model.model.model.embed_tokens.lora_embedding_A", 2, 287),
            extra("base_model.model.model.embed_tokens.lora_embedding_B", 32, 2),
        ),
        "is [2, 287], and [2, 288] is needed",
    ),
    Adapted(
        "adapter with a whole tensor, wrong shape",
        extra("base_model.model.model.norm.weight", 33),
        "is [33], and [32] is needed",
    ),
    Adapted(
        "adapter with a part nobody knows",
        extra(f"base_model.model.{FIRST}.lora_C.weight", 2, 2),
        "the model has no",
    ),
    Adapted(
        "adapter outside",
        link_outside("adapter_model.safetensors"),
        "leads outside",
    ),
    Adapted("adapter without a kind", adapter(peft_type=None), "only LORA is merged"),
    Adapted("adapter no weights", removed("adapter_model.safetensors"), "holds no adapter_model"),
    Adapted(
        "adapter pickled",
        both(removed("adapter_model.safetensors"), content("adapter_model.bin", b"x")),
        "a pickle, which can run any code",
    ),
    Adapted("adapter config no JSON", content("adapter_config.json", b"{"), "is not valid JSON"),
    Adapted("adapter file cut", content("adapter_model.safetensors", b"1234"), "is damaged"),
    Adapted("adapter empty", lambda folder: write_adapter(folder, {}), "changes nothing"),
    Adapted(
        "adapter unknown field", adapter(new_thing=3), '"new_thing" is 3, which cannot be merged'
    ),
    Adapted(
        "adapter layers doubled",
        adapter(layer_replication=[[0, 2]]),
        '"layer_replication" is a list',
    ),
    Adapted("adapter pissa", adapter(init_lora_weights="pissa"), "changes the model's own weights"),
    Adapted("adapter bias kind", adapter(bias="some"), "known are none, all and lora_only"),
    Adapted("adapter rank zero", adapter(r=0), "whole number from 1"),
    Adapted("adapter rank wrong", adapter(r=3), "is [2, 32], and [3, 32] is needed"),
    Adapted("adapter alpha a word", adapter(lora_alpha="2"), "must be a number up to"),
    Adapted("adapter ranks a list", adapter(rank_pattern=[2]), "object of pattern -> number"),
    Adapted("adapter pattern broken", adapter(rank_pattern={"(": 2}), "is no pattern"),
    Adapted("adapter half lost", adapter_tensors(up=None), "q_proj.lora_B"),
    Adapted("adapter other half lost", adapter_tensors(down=None), "q_proj.lora_A"),
    Adapted("adapter too wide", adapter_tensors(down=torch.ones(2, 33)), "is [2, 33], and [2, 32]"),
    Adapted(
        "adapter no module",
        extra("base_model.model.model.layers.9.x.lora_A.weight", 2, 2),
        "has no",
    ),
    Adapted("adapter other prefix", extra("model.x.lora_A.weight", 2, 2), "does not begin with"),
    Adapted(
        "adapter of a tied head", extra("base_model.model.lm_head.lora_A.weight", 2, 32), "are one"
    ),
    Adapted(
        "adapter of a norm", extra("base_model.model.model.norm.lora_A.weight", 2, 32), "no matrix"
    ),
    Adapted("adapter lengths", adapter(use_dora=True), "disagree about lengths"),
    Adapted("adapter biases", adapter(lora_bias=True), "disagree about biases"),
    Adapted(
        "adapter NaN", adapter_tensors(up=torch.full((64, 2), torch.nan)), "an adapter makes NaN"
    ),
    Adapted("adapter flag a number", adapter(use_rslora=1), "must be true or false"),
    Adapted(
        "adapter of a bias that is not there",
        extra(f"base_model.model.{FIRST}.bias", 64),
        f"the model has no {FIRST}.bias",
    ),
]
