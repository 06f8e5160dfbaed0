"""Tiny valid model folders, LLaDA-shaped and Dream-shaped, with random weights.

The tokenizer is one token per byte plus the markers that the real models use, so that every text
can be encoded. Config and tensors are spelled out here on their own, not taken from the table under
test.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from torch import Tensor

Config = dict[str, Any]
Tensors = dict[str, Tensor]

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
        "hidden_act": "silu",
        "hidden_size": 32,
        "intermediate_size": 48,
        "mask_token_id": 260,
        "max_position_embeddings": 4096,
        "model_type": "Dream",
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-06,
        "rope_scaling": None,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": False,
        "use_mrope": False,
        "use_sliding_window": False,
        "vocab_size": VOCABULARY,
    }
    return config | changes


def llada_tensors(config: Config, seed: int = 0) -> Tensors:
    """Every tensor such a checkpoint holds, in float32."""
    d, inner, vocabulary = config["d_model"], config["mlp_hidden_size"], config["vocab_size"]
    kv = d // config["n_heads"] * config["n_kv_heads"]
    shapes: dict[str, tuple[int, ...]] = {
        "model.transformer.wte.weight": (vocabulary, d),
        "model.transformer.ln_f.weight": (d,),
        "model.transformer.ff_out.weight": (vocabulary, d),
    }
    for i in range(config["n_layers"]):
        block = f"model.transformer.blocks.{i}."
        shapes |= {
            block + "attn_norm.weight": (d,),
            block + "q_proj.weight": (d, d),
            block + "k_proj.weight": (kv, d),
            block + "v_proj.weight": (kv, d),
            block + "attn_out.weight": (d, d),
            block + "ff_norm.weight": (d,),
            block + "ff_proj.weight": (inner, d),
            block + "up_proj.weight": (inner, d),
            block + "ff_out.weight": (d, inner),
        }
    return _random(shapes, seed)


def dream_tensors(config: Config, seed: int = 0) -> Tensors:
    """Every tensor such a checkpoint holds, in float32."""
    d, inner, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    kv = d // config["num_attention_heads"] * config["num_key_value_heads"]
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (vocabulary, d),
        "model.norm.weight": (d,),
        "lm_head.weight": (vocabulary, d),
    }
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        shapes |= {
            layer + "input_layernorm.weight": (d,),
            layer + "self_attn.q_proj.weight": (d, d),
            layer + "self_attn.q_proj.bias": (d,),
            layer + "self_attn.k_proj.weight": (kv, d),
            layer + "self_attn.k_proj.bias": (kv,),
            layer + "self_attn.v_proj.weight": (kv, d),
            layer + "self_attn.v_proj.bias": (kv,),
            layer + "self_attn.o_proj.weight": (d, d),
            layer + "post_attention_layernorm.weight": (d,),
            layer + "mlp.gate_proj.weight": (inner, d),
            layer + "mlp.up_proj.weight": (inner, d),
            layer + "mlp.down_proj.weight": (d, inner),
        }
    return _random(shapes, seed)


def make_llada(
    folder: Path,
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    shards: int = 1,
    tokenizer: bool = False,
    template: bool = True,
    **changes: Any,
) -> Path:
    """A LLaDA-shaped folder; `changes` are config keys."""
    config = llada_config(**changes)
    write_folder(folder, config, llada_tensors(config, seed), dtype=dtype, shards=shards)
    if tokenizer:
        byte_tokenizer(LLADA_MARKERS).save(str(folder / "tokenizer.json"))
        chat = {"chat_template": LLADA_TEMPLATE} if template else {}
        names = {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>"}
        write_json(folder / "tokenizer_config.json", names | chat)
    return folder


def make_dream(
    folder: Path,
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    shards: int = 1,
    tokenizer: bool = False,
    template: bool = True,
    **changes: Any,
) -> Path:
    """A Dream-shaped folder, tokenizer as vocab.json and merges.txt; `changes` are config keys."""
    config = dream_config(**changes)
    write_folder(folder, config, dream_tensors(config, seed), dtype=dtype, shards=shards)
    if tokenizer:
        write_json(folder / "vocab.json", byte_vocabulary())
        (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
        added = {marker: 256 + place for place, marker in enumerate(DREAM_MARKERS)}
        write_json(folder / "added_tokens.json", added)
        described = {str(id): {"content": name, "special": True} for name, id in added.items()}
        names = {"bos_token": "<|beginoftext|>", "eos_token": {"content": "<|endoftext|>"}}
        write_json(folder / "tokenizer_config.json", {"added_tokens_decoder": described} | names)
        if template:
            (folder / "chat_template.jinja").write_text(DREAM_TEMPLATE, encoding="utf-8")
    return folder


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


def _random(shapes: Mapping[str, tuple[int, ...]], seed: int) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    return {name: 0.1 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}
