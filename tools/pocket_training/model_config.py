"""config.json of an exported model: every key that the family's own files have, as a table per family."""

from __future__ import annotations

from typing import Any

from archer.loading.architecture import Architecture
from archer.network.network import Shape


def model_config(architecture: Architecture, shape: Shape, end: int, mask: int) -> dict[str, Any]:
    """What the ordinary loader reads the network's shape from."""
    family = _dream if architecture.shift else _llada
    return {"architectures": [architecture.name], **family(shape, end, mask)}


def _llada(shape: Shape, end: int, mask: int) -> dict[str, Any]:
    return {
        "activation_type": "silu",
        "alibi": False,
        "alibi_bias_max": 8.0,
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


def _dream(shape: Shape, end: int, mask: int) -> dict[str, Any]:
    return {
        "attention_dropout": 0.0,
        "eos_token_id": end,
        "hidden_act": "silu",
        "hidden_size": shape.width,
        "initializer_range": 0.02,
        "intermediate_size": shape.inner,
        "mask_token_id": mask,
        "max_position_embeddings": shape.max_positions,
        "max_window_layers": shape.layers,
        "model_type": "Dream",
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": shape.kv_heads,
        "pad_token_id": end,
        "rms_norm_eps": shape.norm_epsilon,
        "rope_scaling": None,
        "rope_theta": shape.rope_theta,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
        "transformers_version": "4.46.3",
        "use_cache": False,
        "use_sliding_window": False,
        "vocab_size": shape.vocabulary,
    }
