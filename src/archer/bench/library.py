"""The same weights in the transformers library, to time its pass beside ours.

The library is no dependency of Archer: without it this one comparison is refused.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from archer.engine.network import Layer, Shape, Transformer
from archer.errors import BadRequest


def check_library() -> None:
    if find_spec("transformers") is None:
        raise BadRequest(
            "--library compares with the transformers library, which is not installed here. "
            "Install it (pip install transformers), or leave --library out."
        )


def library_twin(network: Transformer) -> Any:
    """A Llama, or with biases a Qwen2, that sees both ways; no weight is copied."""
    library = importlib.import_module("transformers")
    family = "Qwen2" if network.shape.qkv_bias else "Llama"
    config = getattr(library, f"{family}Config")(**_config(network.shape))
    config.is_causal = False
    with torch.device("meta"):
        twin = getattr(library, f"{family}ForCausalLM")(config)
    # Frequencies are no weights: they are computed where the module is made.
    twin.model.rotary_emb = type(twin.model.rotary_emb)(config).to(network.device)
    twin.load_state_dict(dict(_weights(network)), assign=True)
    for layer in twin.model.layers:
        layer.self_attn.is_causal = False
    return twin.eval()


def library_pass(twin: Any, tokens: Tensor, keep: int = 0) -> Tensor:
    """Long[n] -> logits [n, V], or of the last `keep` rows alone."""
    with torch.no_grad():
        logits: Tensor = twin(tokens[None], use_cache=False, logits_to_keep=keep).logits
    return logits[0]


def _config(shape: Shape) -> dict[str, Any]:
    return {
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.width,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "rms_norm_eps": shape.norm_epsilon,
        "max_position_embeddings": shape.max_positions,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_theta},
        "tie_word_embeddings": False,
        "attn_implementation": "sdpa",
    }


def _weights(network: Transformer) -> Iterator[tuple[str, Tensor]]:
    yield "model.embed_tokens.weight", network.embedding
    yield "model.norm.weight", network.norm
    yield "lm_head.weight", network.head
    for index in range(network.shape.layers):
        for name, weight in _layer_weights(network.layer(index)):
            yield f"model.layers.{index}.{name}", weight


def _layer_weights(layer: Layer) -> Iterator[tuple[str, Tensor]]:
    shape = layer.shape
    sizes = [heads * shape.head_dim for heads in (shape.heads, shape.kv_heads, shape.kv_heads)]
    yield "input_layernorm.weight", layer.attention_norm
    yield "post_attention_layernorm.weight", layer.feed_norm
    yield "self_attn.o_proj.weight", layer.out
    yield "mlp.down_proj.weight", layer.down
    for name, part in zip(("gate", "up"), layer.gate_up.chunk(2), strict=True):
        yield f"mlp.{name}_proj.weight", part
    for name, part in zip("qkv", layer.qkv.split(sizes), strict=True):
        yield f"self_attn.{name}_proj.weight", part
    if layer.qkv_bias is not None:
        for name, part in zip("qkv", layer.qkv_bias.split(sizes), strict=True):
            yield f"self_attn.{name}_proj.bias", part
