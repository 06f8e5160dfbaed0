"""The same weights in the transformers library, which is no dependency, to time its pass beside ours."""

import importlib
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from archer.errors import BadRequest
from archer.network.attention import seen
from archer.network.network import Layer, Shape, Transformer
from archer.network.shape import DENSE, AttentionKind, Experts, Router


def check_library() -> None:
    if find_spec("transformers") is None:
        raise BadRequest(
            "The transformers library, to compare with, is not installed here. "
            "Install it (pip install transformers), or leave the comparison out."
        )


def library_twin(network: Transformer) -> Any:
    """The library's own model of the same shape, seeing both ways; no weight is copied."""
    library = importlib.import_module("transformers")
    family = _family(network.shape)
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


def library_pass(
    twin: Any, tokens: Tensor, keep: int = 0, kind: AttentionKind = DENSE, prompt: int = 0
) -> Tensor:
    """Long[n] -> logits [n, V], or of the last `keep` rows alone; `kind` and `prompt` as for `seen`."""
    columns = torch.arange(len(tokens), device=tokens.device)
    rule = seen(kind, columns, columns, prompt)
    mask = None if rule is None else rule[None, None]
    with torch.no_grad():
        answer = twin(tokens[None], attention_mask=mask, use_cache=False, logits_to_keep=keep)
    logits: Tensor = answer.logits[0]
    return logits


def _family(shape: Shape) -> str:
    if shape.experts is None:
        return "Qwen3" if shape.qk_norm else "Qwen2" if shape.qkv_bias else "Llama"
    return "Glm4Moe" if shape.experts.router is Router.GROUPED_SIGMOID else "Qwen3Moe"


def _config(shape: Shape) -> dict[str, Any]:
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": shape.rope_theta}
    if shape.rotary is not None:
        rope["partial_rotary_factor"] = shape.rotary / shape.head_dim
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
        "rope_parameters": rope,
        "tie_word_embeddings": shape.tied,
        "attn_implementation": "sdpa",
        **({} if shape.experts is None else _mixture(shape.experts)),
    }


def _mixture(experts: Experts) -> dict[str, Any]:
    both = {
        "num_experts_per_tok": experts.active,
        "moe_intermediate_size": experts.inner,
        "attention_bias": False,
    }
    if experts.router is not Router.GROUPED_SIGMOID:
        return both | {
            "num_experts": experts.count,
            "norm_topk_prob": experts.router is Router.RENORMALISED,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
        }
    return both | {
        "n_routed_experts": experts.count,
        "n_shared_experts": experts.shared // experts.inner,
        "n_group": experts.groups,
        "topk_group": experts.kept_groups,
        "routed_scaling_factor": experts.scale,
        "norm_topk_prob": True,
        "first_k_dense_replace": experts.dense_layers,
        "use_qk_norm": True,
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
    for name, part in zip("qkv", layer.qkv.split(sizes), strict=True):
        yield f"self_attn.{name}_proj.weight", part
    if layer.qkv_bias is not None:
        for name, part in zip("qkv", layer.qkv_bias.split(sizes), strict=True):
            yield f"self_attn.{name}_proj.bias", part
    dense = "mlp." if layer.router is None else "mlp.shared_experts."
    if layer.gate_up is not None:
        for name, part in zip(("gate", "up"), layer.gate_up.chunk(2), strict=True):
            yield f"{dense}{name}_proj.weight", part
    others = {
        "self_attn.q_norm.weight": layer.query_norm,
        "self_attn.k_norm.weight": layer.key_norm,
        f"{dense}down_proj.weight": layer.down,
        "mlp.gate.weight": layer.router,
        "mlp.gate.e_score_correction_bias": layer.router_bias,
        "mlp.experts.gate_up_proj": layer.expert_gate_up,
        "mlp.experts.down_proj": layer.expert_down,
    }
    yield from ((name, weight) for name, weight in others.items() if weight is not None)
