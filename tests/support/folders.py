"""Tiny valid model folders in the shapes of all families, with random weights.

The tokenizer is one token per byte plus the markers that the real models use, so that every text
can be encoded. Config and tensors are spelled out here on their own, not taken from the table under
test.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from torch import Tensor

Config = dict[str, Any]
Tensors = dict[str, Tensor]
Shapes = dict[str, tuple[int, ...]]

VOCABULARY = 288
LLADA_MARKERS = (
    "<|startoftext|>",
    "<|endoftext|>",
    "<|mdm_mask|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
)
DREAM_MARKERS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|beginoftext|>",
    "<|mask|>",
    "<|dlm_pad|>",
)
LING_MARKERS = (
    "<|startoftext|>",
    "<|endoftext|>",
    "<|mask|>",
    "<role>",
    "</role>",
    "<|role_end|>",
)
LLADA_MOE_TEMPLATE = (
    "{% for m in messages %}"
    "<role>{{ 'HUMAN' if m.role == 'user' else m.role | upper }}</role>{{ m.content }}<|role_end|>"
    "{% endfor %}{% if add_generation_prompt %}<role>ASSISTANT</role>{% endif %}"
)
LLADA2_TEMPLATE = (
    "{% set own = messages[0].role == 'system' %}"
    "<role>SYSTEM</role>{% if own %}{{ messages[0].content + '\\n' }}{% endif %}"
    "detailed thinking off<|role_end|>"
    "{% for m in (messages[1:] if own else messages) %}"
    "<role>{{ 'HUMAN' if m.role == 'user' else m.role | upper }}</role>{{ m.content }}<|role_end|>"
    "{% endfor %}{% if add_generation_prompt %}<role>ASSISTANT</role>{% endif %}"
)
LLADA_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}"
    "{{ m.content | trim }}<|eot_id|>{% endfor %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"
)
DREAM_TEMPLATE = (
    "{%- for m in messages -%}\n"
    "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}\n"
)


SIZES: Config = {
    "hidden_act": "silu",
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "tie_word_embeddings": False,
    "vocab_size": VOCABULARY,
}
"""What the families with the names of transformers have in common."""


def llada_config(**changes: Any) -> Config:
    """As LLaDA-8B's, but tiny."""
    config = {
        "activation_type": "silu",
        "alibi": False,
        "architectures": ["LLaDAModelLM"],
        "attention_layer_norm": False,
        "bias_for_layer_norm": False,
        "block_group_size": 1,
        "block_type": "llama",
        "d_model": 32,
        "embedding_size": VOCABULARY,
        "eos_token_id": 257,
        "include_bias": False,
        "include_qkv_bias": False,
        "input_emb_norm": False,
        "layer_norm_type": "rms",
        "layer_norm_with_affine": True,
        "mask_token_id": 258,
        "max_sequence_length": 512,
        "mlp_hidden_size": 48,
        "model_type": "llada",
        "n_heads": 4,
        "n_kv_heads": 4,
        "n_layers": 2,
        "rms_norm_eps": 1e-05,
        "rope": True,
        "rope_full_precision": True,
        "rope_theta": 500000.0,
        "scale_logits": False,
        "vocab_size": VOCABULARY,
        "weight_tying": False,
    }
    return config | changes


def dream_config(**changes: Any) -> Config:
    """As Dream-7B's, but tiny."""
    config = {
        "architectures": ["DreamModel"],
        "eos_token_id": 256,
        "intermediate_size": 48,
        "mask_token_id": 260,
        "max_position_embeddings": 4096,
        "model_type": "Dream",
        "rms_norm_eps": 1e-06,
        "rope_scaling": None,
        "rope_theta": 1000000.0,
        "use_mrope": False,
        "use_sliding_window": False,
    }
    return SIZES | config | changes


def llada_moe_config(**changes: Any) -> Config:
    """As LLaDA-MoE's, but tiny; the ids are given, because its own are beyond this vocabulary."""
    config = {
        "architectures": ["LLaDAMoEModelLM"],
        "attention_bias": False,
        "dense_intermediate_size": 64,
        "eos_token_id": 257,
        "expert_intermediate_size": 12,
        "mask_token_id": 258,
        "max_position_embeddings": 512,
        "model_type": "llada",
        "moe_layer_freq": [1, 1],
        "moe_router_score_function": "softmax",
        "norm_topk_prob": None,
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "partial_rotary_factor": 1,
        "qk_layernorm": True,
        "rms_norm_eps": 1e-05,
        "rope_theta": 50000.0,
        "shared_expert_intermediate_size": None,
    }
    return SIZES | config | changes


def llada2_config(**changes: Any) -> Config:
    """As LLaDA2's, but tiny; the ids are given, because its own are beyond this vocabulary."""
    config = {
        "architectures": ["LLaDA2MoeModelLM"],
        "eos_token_id": 257,
        "first_k_dense_replace": 1,
        "head_dim": 16,
        "intermediate_size": 48,
        "mask_token_id": 258,
        "max_position_embeddings": 512,
        "model_type": "llada2_moe",
        "moe_intermediate_size": 12,
        "moe_router_enable_expert_bias": True,
        "n_group": 2,
        "norm_topk_prob": True,
        "num_experts": 8,
        "num_experts_per_tok": 3,
        "num_shared_experts": 1,
        "partial_rotary_factor": 0.5,
        "rms_norm_eps": 1e-06,
        "rope_scaling": None,
        "rope_theta": 600000,
        "rotary_dim": 8,
        "routed_scaling_factor": 2.5,
        "score_function": "sigmoid",
        "topk_group": 1,
        "use_bias": False,
        "use_qkv_bias": False,
    }
    return SIZES | config | changes


def a2d_config(**changes: Any) -> Config:
    """As A2D-Qwen3-0.6B's, but tiny; the mask is in the tokenizer alone."""
    config = {
        "architectures": ["A2DQwen3LMHeadModel"],
        "attention_bias": False,
        "eos_token_id": 258,
        "head_dim": 16,
        "hidden_act": "silu",
        "hidden_size": 32,
        "intermediate_size": 48,
        "layer_types": ["full_attention"] * 2,
        "max_position_embeddings": 512,
        "model_type": "a2d-qwen3",
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-06,
        "rope_scaling": None,
        "rope_theta": 1000000,
        "tie_word_embeddings": True,
        "use_sliding_window": False,
        "vocab_size": VOCABULARY,
    }
    return config | changes


def sdar_config(**changes: Any) -> Config:
    """As SDAR's, but tiny: blocks, a head of its own, the mask in the config."""
    own = {
        "architectures": ["SDARForCausalLM"],
        "block_size": 4,
        "mask_token_id": 260,
        "model_type": "sdar",
        "tie_word_embeddings": False,
    }
    return a2d_config(**own | changes)


def a2d_qwen2_config(**changes: Any) -> Config:
    """As A2D-Qwen2's, but tiny: biases, and heads that divide the width."""
    own = {"architectures": ["A2DQwen2LMHeadModel"], "model_type": "a2d-qwen2"}
    config = a2d_config(**own | changes)
    return {
        key: value for key, value in config.items() if key not in ("head_dim", "attention_bias")
    }


def open_dcoder_config(**changes: Any) -> Config:
    """As Open-dCoder's, but tiny: the name of an autoregressive model."""
    return a2d_qwen2_config(
        **{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"} | changes
    )


def illada_config(**changes: Any) -> Config:
    """As iLLaDA's, but tiny; the mask is given, because the family's constants are of its vocabulary."""
    own = {
        "architectures": ["ILLaDAForCausalLM"],
        "mask_token_id": 260,
        "mlp_bias": False,
        "model_type": "illada",
    }
    config = a2d_config(**own | changes)
    unknown = ("head_dim", "layer_types", "use_sliding_window")
    return {key: value for key, value in config.items() if key not in unknown}


def coda_config(**changes: Any) -> Config:
    """As CoDA's, but tiny: it does not say whether the head is the embedding, and has one of its own."""
    own = {"architectures": ["CoDALanguageModel"], "mask_token_id": 260, "model_type": "CoDA"}
    config = a2d_config(**own | changes)
    return {key: value for key, value in config.items() if key != "tie_word_embeddings"}


def rnd1_config(**changes: Any) -> Config:
    """As RND1's, but tiny: experts in every layer."""
    own = {
        "architectures": ["RND1LM"],
        "mask_token_id": 260,
        "model_type": "rnd1",
        "moe_intermediate_size": 12,
        "norm_topk_prob": True,
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "tie_word_embeddings": False,
    }
    return a2d_config(**own | changes)


def a2d_tensors(config: Config, seed: int = 0) -> Tensors:
    """Every tensor such a checkpoint holds, in float32; what was made of Qwen2, Qwen3 or Llama."""
    d, vocabulary = config["hidden_size"], config["vocab_size"]
    size = config.get("head_dim", d // config["num_attention_heads"])
    queries, keys = (config[f"num_{kind}_heads"] * size for kind in ("attention", "key_value"))
    around = _around("embed_tokens", vocabulary, d)
    if config.get("tie_word_embeddings", False):
        del around["lm_head.weight"]
    layer: Shapes = {"input_layernorm.weight": (d,), "post_attention_layernorm.weight": (d,)}
    for name, rows in (("q", queries), ("k", keys), ("v", keys)):
        layer[f"self_attn.{name}_proj.weight"] = (rows, d)
        if config["model_type"] in ("a2d-qwen2", "qwen2"):
            layer[f"self_attn.{name}_proj.bias"] = (rows,)
    layer["self_attn.o_proj.weight"] = (d, queries)
    if "head_dim" in config:
        layer |= {f"self_attn.{name}_norm.weight": (size,) for name in "qk"}
    if "num_experts" in config:
        layer["mlp.gate.weight"] = (config["num_experts"], d)
        layer |= _experts(config["num_experts"], config["moe_intermediate_size"], d)
    else:
        layer |= _swiglu("mlp.", config["intermediate_size"], d)
    return _drawn(around, "model.layers", [layer] * config["num_hidden_layers"], seed)


def write_adapter(
    folder: Path, shapes: Mapping[str, tuple[int, int]], *, rank: int = 2, **changes: Any
) -> Path:
    """A LoRA adapter for some modules, by name and shape, as PEFT saves it."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 4, "target_modules": list(shapes)}
    write_json(folder / "adapter_config.json", config | changes)
    halves: Shapes = {}
    for module, (outputs, inputs) in shapes.items():
        halves[f"base_model.model.{module}.lora_A.weight"] = (rank, inputs)
        halves[f"base_model.model.{module}.lora_B.weight"] = (outputs, rank)
    save_file(_drawn(halves, "", (), 3), folder / "adapter_model.safetensors")
    return folder


def llada_moe_tensors(config: Config, seed: int = 0) -> Tensors:
    """Every tensor such a checkpoint holds, in float32."""
    d, vocabulary = config["hidden_size"], config["vocab_size"]
    size = d // config["num_attention_heads"]
    kv = size * config["num_key_value_heads"]
    layer: Shapes = {
        "input_layernorm.weight": (d,),
        "self_attn.q_proj.weight": (d, d),
        "self_attn.k_proj.weight": (kv, d),
        "self_attn.v_proj.weight": (kv, d),
        "self_attn.q_norm.weight": (size,),
        "self_attn.k_norm.weight": (size,),
        "self_attn.o_proj.weight": (d, d),
        "post_attention_layernorm.weight": (d,),
        "mlp.gate.weight": (config["num_experts"], d),
        **_experts(config["num_experts"], config["expert_intermediate_size"], d),
    }
    layers = [layer] * config["num_hidden_layers"]
    return _drawn(_around("embed_tokens", vocabulary, d), "model.layers", layers, seed)


def llada2_tensors(config: Config, seed: int = 0) -> Tensors:
    """Every tensor such a checkpoint holds, in float32."""
    d, vocabulary, size = config["hidden_size"], config["vocab_size"], config["head_dim"]
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
    count, inner = config["num_experts"], config["moe_intermediate_size"]
    both: Shapes = {
        "input_layernorm.weight": (d,),
        "attention.query_key_value.weight": ((heads + 2 * kv) * size, d),
        "attention.query_layernorm.weight": (size,),
        "attention.key_layernorm.weight": (size,),
        "attention.dense.weight": (d, heads * size),
        "post_attention_layernorm.weight": (d,),
    }
    dense = both | _swiglu("mlp.", config["intermediate_size"], d)
    sparse = both | {"mlp.gate.weight": (count, d), "mlp.gate.expert_bias": (count,)}
    sparse |= _experts(count, inner, d)
    sparse |= _swiglu("mlp.shared_experts.", inner * config["num_shared_experts"], d)
    first = config["first_k_dense_replace"]
    layers = [dense if i < first else sparse for i in range(config["num_hidden_layers"])]
    return _drawn(_around("word_embeddings", vocabulary, d), "model.layers", layers, seed)


def llada_tensors(config: Config, seed: int = 0) -> Tensors:
    """Every tensor such a checkpoint holds, in float32."""
    d, inner, vocabulary = config["d_model"], config["mlp_hidden_size"], config["vocab_size"]
    kv = d // config["n_heads"] * config["n_kv_heads"]
    around: Shapes = {
        "model.transformer.wte.weight": (vocabulary, d),
        "model.transformer.ln_f.weight": (d,),
        "model.transformer.ff_out.weight": (vocabulary, d),
    }
    block: Shapes = {
        "attn_norm.weight": (d,),
        "q_proj.weight": (d, d),
        "k_proj.weight": (kv, d),
        "v_proj.weight": (kv, d),
        "attn_out.weight": (d, d),
        "ff_norm.weight": (d,),
        "ff_proj.weight": (inner, d),
        "up_proj.weight": (inner, d),
        "ff_out.weight": (d, inner),
    }
    return _drawn(around, "model.transformer.blocks", [block] * config["n_layers"], seed)


def dream_tensors(config: Config, seed: int = 0) -> Tensors:
    """Every tensor such a checkpoint holds, in float32."""
    d, inner, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    kv = d // config["num_attention_heads"] * config["num_key_value_heads"]
    layer: Shapes = {"input_layernorm.weight": (d,)}
    for name, rows in (("q", d), ("k", kv), ("v", kv)):
        layer[f"self_attn.{name}_proj.weight"] = (rows, d)
        layer[f"self_attn.{name}_proj.bias"] = (rows,)
    layer |= {"self_attn.o_proj.weight": (d, d), "post_attention_layernorm.weight": (d,)}
    layer |= _swiglu("mlp.", inner, d)
    layers = [layer] * config["num_hidden_layers"]
    return _drawn(_around("embed_tokens", vocabulary, d), "model.layers", layers, seed)


def _around(embedding: str, vocabulary: int, d: int) -> Shapes:
    """What stands before and behind the layers."""
    return {
        f"model.{embedding}.weight": (vocabulary, d),
        "model.norm.weight": (d,),
        "lm_head.weight": (vocabulary, d),
    }


def _experts(count: int, inner: int, d: int) -> Shapes:
    every = (_swiglu(f"mlp.experts.{expert}.", inner, d) for expert in range(count))
    return {name: size for each in every for name, size in each.items()}


def _swiglu(prefix: str, inner: int, d: int) -> Shapes:
    sizes = {"gate": (inner, d), "up": (inner, d), "down": (d, inner)}
    return {f"{prefix}{name}_proj.weight": size for name, size in sizes.items()}


def _drawn(around: Shapes, where: str, layers: Sequence[Shapes], seed: int) -> Tensors:
    """Random tensors of these shapes; those of a layer are named by `where` and its number."""
    shapes = around | {
        f"{where}.{i}.{name}": size
        for i, layer in enumerate(layers)
        for name, size in layer.items()
    }
    generator = torch.Generator().manual_seed(seed)
    return {name: 0.1 * torch.randn(size, generator=generator) for name, size in shapes.items()}


def write_folder(
    folder: Path,
    config: Config,
    tensors: Mapping[str, Tensor],
    *,
    dtype: torch.dtype = torch.float32,
    shards: int = 1,
) -> None:
    """config.json and the weights, in one file or in several with an index."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config)
    stored = {name: tensor.to(dtype).contiguous() for name, tensor in tensors.items()}
    if shards == 1:
        save_file(stored, folder / "model.safetensors")
        return
    names = [f"model-{n + 1:05}-of-{shards:05}.safetensors" for n in range(shards)]
    weight_map = {tensor: names[place % shards] for place, tensor in enumerate(sorted(stored))}
    for name in names:
        save_file({t: stored[t] for t, file in weight_map.items() if file == name}, folder / name)
    write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map})


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def byte_vocabulary() -> dict[str, int]:
    """One token per byte, in the letters that byte-level tokenizers use."""
    return {letter: id for id, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}


def byte_tokenizer(markers: tuple[str, ...]) -> Tokenizer:
    """Bytes are ids 0 to 255, markers follow."""
    tokenizer = Tokenizer(BPE(vocab=byte_vocabulary(), merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(name, special=True, normalized=False) for name in markers])
    return tokenizer


def _in_one_file(
    markers: tuple[str, ...], chat_template: str, folder: Path, *, template: bool
) -> None:
    byte_tokenizer(markers).save(str(folder / "tokenizer.json"))
    names = {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>"}
    chat = {"chat_template": chat_template} if template else {}
    write_json(folder / "tokenizer_config.json", names | chat)


def _in_several_files(folder: Path, *, template: bool) -> None:
    """As Dream has it: vocab.json, merges.txt and a template of its own."""
    write_json(folder / "vocab.json", byte_vocabulary())
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    added = {marker: 256 + place for place, marker in enumerate(DREAM_MARKERS)}
    write_json(folder / "added_tokens.json", added)
    described = {str(id): {"content": name, "special": True} for name, id in added.items()}
    names = {"bos_token": "<|beginoftext|>", "eos_token": {"content": "<|endoftext|>"}}
    write_json(folder / "tokenizer_config.json", {"added_tokens_decoder": described} | names)
    if template:
        (folder / "chat_template.jinja").write_text(DREAM_TEMPLATE, encoding="utf-8")


def _make(
    config_of: Callable[..., Config],
    tensors_of: Callable[[Config, int], Tensors],
    write_tokenizer: Callable[..., None],
    folder: Path,
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    shards: int = 1,
    tokenizer: bool = False,
    template: bool = True,
    **changes: Any,
) -> Path:
    """A folder of one family; `changes` are config keys."""
    config = config_of(**changes)
    write_folder(folder, config, tensors_of(config, seed), dtype=dtype, shards=shards)
    if tokenizer:
        write_tokenizer(folder, template=template)
    return folder


LLADA_TEXT = partial(_in_one_file, LLADA_MARKERS, LLADA_TEMPLATE)
LLADA_MOE_TEXT = partial(_in_one_file, LING_MARKERS, LLADA_MOE_TEMPLATE)
LLADA2_TEXT = partial(_in_one_file, LING_MARKERS, LLADA2_TEMPLATE)
make_llada = partial(_make, llada_config, llada_tensors, LLADA_TEXT)
make_dream = partial(_make, dream_config, dream_tensors, _in_several_files)
make_llada_moe = partial(_make, llada_moe_config, llada_moe_tensors, LLADA_MOE_TEXT)
make_llada2 = partial(_make, llada2_config, llada2_tensors, LLADA2_TEXT)
A2D_TEXT = partial(_in_one_file, DREAM_MARKERS, DREAM_TEMPLATE)
make_a2d = partial(_make, a2d_config, a2d_tensors, A2D_TEXT, tokenizer=True)
make_sdar = partial(_make, sdar_config, a2d_tensors, A2D_TEXT)
make_a2d_qwen2 = partial(_make, a2d_qwen2_config, a2d_tensors, A2D_TEXT, tokenizer=True)
OPEN_DCODER_TEXT = partial(
    _in_one_file, tuple("<M>" if m == "<|mask|>" else m for m in DREAM_MARKERS), DREAM_TEMPLATE
)
make_open_dcoder = partial(_make, open_dcoder_config, a2d_tensors, OPEN_DCODER_TEXT, tokenizer=True)
make_illada = partial(_make, illada_config, a2d_tensors, A2D_TEXT)
make_coda = partial(_make, coda_config, a2d_tensors, A2D_TEXT)
make_rnd1 = partial(_make, rnd1_config, a2d_tensors, A2D_TEXT)


def named(name: str, make: Callable[..., Path], parent: Path, **changes: Any) -> Path:
    """A folder whose name tells its family."""
    return make(parent / name, **changes)


MAKE: dict[str, Callable[..., Path]] = {
    "llada": partial(named, "llada", make_llada),
    "illada": partial(named, "illada", make_illada),
    "dream": partial(named, "dream", make_dream),
    "a2d-qwen3": partial(named, "a2d-qwen3", make_a2d),
    "a2d-qwen3-bd3lm": partial(named, "a2d-qwen3-bd3lm", make_a2d),
    "a2d-qwen2": partial(named, "a2d-qwen2", make_a2d_qwen2),
    "a2d-qwen2-bd3lm": partial(named, "a2d-qwen2-bd3lm", make_a2d_qwen2),
    "opdlm": partial(named, "opdlm", make_a2d),
    "sdar": partial(named, "sdar", make_sdar),
    "coda": partial(named, "coda", make_coda),
    "open-dcoder": partial(named, "open-dcoder", make_open_dcoder),
    "llada-moe": partial(named, "llada-moe", make_llada_moe),
    "llada2": partial(named, "llada2", make_llada2),
    "rnd1": partial(named, "rnd1", make_rnd1),
}
"""Every family of released models, in a folder of its name."""
