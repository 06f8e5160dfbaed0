"""From a training checkpoint to a model folder in LLaDA's format, for the ordinary loader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from archer.engine.network import Shape, Transformer
from archer.errors import BadRequest
from archer.pocket import tokenizer as vocabulary
from archer.training import checkpoint
from archer.training.card import card
from archer.training.learner import restore_weights
from archer.training.network import first_weights, pocket_shape
from archer.training.samples import RESPONSE


def export(source: Path, folder: Path) -> None:
    """Write the averaged weights of a checkpoint as a model folder, in float16.

    `source` is a checkpoint or the folder of a run, whose newest checkpoint is taken. `folder` must be
    new or empty.
    """
    found = checkpoint.existing(source)
    path = found[-1] if found else source
    progress, tensors = checkpoint.load(path)
    if folder.exists() and any(folder.iterdir()):
        raise BadRequest(f"{folder} is not empty. Name a new folder for the exported model.")
    pieces = vocabulary.vocabulary()
    network = first_weights(pocket_shape(len(pieces)), pieces, progress.seed).requires_grad_(False)
    restore_weights(network, tensors, "average")
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = vocabulary.build()
    end, begin = vocabulary.token_id(vocabulary.END), vocabulary.token_id(vocabulary.BEGIN)
    save_file(_named(network), folder / "model.safetensors", metadata={"format": "pt"})
    _write(
        folder / "config.json", _config(network.shape, end, vocabulary.token_id(vocabulary.MASK))
    )
    _write(
        folder / "generation_config.json",
        {"bos_token_id": begin, "eos_token_id": end, "max_new_tokens": RESPONSE},
    )
    _write(folder / "tokenizer_config.json", vocabulary.settings())
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "README.md").write_text(card(network.shape, progress), encoding="utf-8")


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _named(network: Transformer) -> dict[str, Tensor]:
    """The tensors under LLaDA's names; the tied head is written out a second time."""
    top = "model.transformer."
    named: dict[str, Tensor] = {
        f"{top}wte.weight": network.embedding,
        f"{top}ln_f.weight": network.norm,
        f"{top}ff_out.weight": network.head,
    }
    for index in range(network.shape.layers):
        layer, block = network.layer(index), f"{top}blocks.{index}."
        named[f"{block}attn_norm.weight"] = layer.attention_norm
        for letter, part in zip("qkv", layer.qkv.chunk(3), strict=True):
            named[f"{block}{letter}_proj.weight"] = part
        named[f"{block}attn_out.weight"] = layer.out
        named[f"{block}ff_norm.weight"] = layer.feed_norm
        gate, up = layer.gate_up.chunk(2)
        named[f"{block}ff_proj.weight"] = gate
        named[f"{block}up_proj.weight"] = up
        named[f"{block}ff_out.weight"] = layer.down
    return {name: tensor.to(torch.float16, copy=True) for name, tensor in named.items()}


def _config(shape: Shape, end: int, mask: int) -> dict[str, Any]:
    """config.json with every key that LLaDA's own has."""
    return {
        "activation_type": "silu",
        "alibi": False,
        "alibi_bias_max": 8.0,
        "architectures": ["LLaDAModelLM"],
        "attention_dropout": 0.0,
        "attention_layer_norm": False,
        "attention_layer_norm_with_affine": True,
        "bias_for_layer_norm": False,
        "block_group_size": 1,
        "block_type": "llama",
        "d_model": shape.width,
        "embedding_dropout": 0.0,
        "embedding_size": shape.vocabulary,
        "eos_token_id": end,
        "flash_attention": False,
        "include_bias": False,
        "include_qkv_bias": shape.qkv_bias,
        "init_cutoff_factor": None,
        "init_device": "meta",
        "init_fn": "mitchell",
        "init_std": 0.02,
        "input_emb_norm": False,
        "layer_norm_type": "rms",
        "layer_norm_with_affine": True,
        "mask_token_id": mask,
        "max_sequence_length": shape.max_positions,
        "mlp_hidden_size": shape.inner,
        "mlp_ratio": 4,
        "model_type": "llada",
        "multi_query_attention": None,
        "n_heads": shape.heads,
        "n_kv_heads": shape.kv_heads,
        "n_layers": shape.layers,
        "pad_token_id": end,
        "precision": "fp32",
        "residual_dropout": 0.0,
        "rms_norm_eps": shape.norm_epsilon,
        "rope": True,
        "rope_full_precision": shape.rope_float32,
        "rope_theta": shape.rope_theta,
        "scale_logits": False,
        "transformers_version": "4.46.3",
        "use_cache": False,
        "vocab_size": shape.vocabulary,
        "weight_tying": False,
    }
