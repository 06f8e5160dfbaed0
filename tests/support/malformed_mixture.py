"""Folders of the mixtures, LLaDA-MoE and LLaDA2, that are refused."""

from functools import partial
from pathlib import Path
from typing import Any

import torch

from support.folders import make_llada2, make_llada_moe
from support.spoil import Case, Spoil, config, tensors, without

LAYER = "model.layers.1."
EXPERT = LAYER + "mlp.experts.3."

Moe = partial(Case, make=make_llada_moe)
Two = partial(Case, make=make_llada2)


def shaped(name: str, *size: int) -> Spoil:
    return tensors(lambda held: held.update({name: torch.zeros(size)}))


def lost(name: str) -> Spoil:
    return tensors(lambda held: held.pop(name))


def stacked(held: dict[str, Any]) -> None:
    """Experts of a layer in one tensor, as a training format has them."""
    names = [name for name in held if name.startswith(LAYER + "mlp.experts.")]
    own = [held.pop(name) for name in sorted(names) if name.endswith("gate_proj.weight")]
    held[LAYER + "mlp.experts.gate_proj"] = torch.stack(own)


def infinite(name: str) -> Spoil:
    def spoil(folder: Path) -> None:
        tensors(lambda held: held[name].view(-1)[:1].fill_(torch.inf))(folder)

    return spoil


CASES = [
    Moe("moe capacity", config(expert_capacity=8), '"expert_capacity" is 8; only null'),
    Moe("moe no experts", without("num_experts"), '"num_experts" is missing'),
    Moe("moe no expert width", without("expert_intermediate_size"), "is missing"),
    Moe("moe zero experts", config(num_experts=0), "whole number from 1"),
    Moe("moe an expert bomb", config(num_experts=10**9), "whole number from 1 to 8192"),
    Moe("moe too many chosen", config(num_experts_per_tok=7), "whole number from 1 to 6"),
    Moe("moe a dense layer", config(moe_layer_freq=[1, 0]), "a list of 2 times 1"),
    Moe("moe too few layers", config(moe_layer_freq=[1]), "a list of 2 times 1"),
    Moe("moe true for one", config(moe_layer_freq=[True, True]), "a list of 2 times 1"),
    Moe("moe frequency a number", config(moe_layer_freq=1), "a list of 2 times 1"),
    Moe("moe no frequency", without("moe_layer_freq"), '"moe_layer_freq" is missing'),
    Moe("moe no head norm", config(qk_layernorm=False), '"qk_layernorm" is false'),
    Moe("moe shared", config(shared_expert_intermediate_size=8), "only null is supported"),
    Moe("moe partial", config(partial_rotary_factor=0.5), "is 0.5; only 1 or 1.0 is supported"),
    Moe("moe biased router", config(moe_router_enable_expert_bias=True), "only false or null"),
    Moe("moe sigmoid", config(moe_router_score_function="sigmoid"), 'only "softmax" or null'),
    Moe("moe scaled", config(routed_scaling_factor=2.5), "only 1 or 1.0 or null is supported"),
    Moe("moe groups", config(router_num_group=4), '"router_num_group" is 4'),
    Moe("moe quantised", config(quantization_config={"bits": 4}), "is an object"),
    Moe("moe unknown ids", without("mask_token_id"), "vocabulary of 157184 only, not of 288"),
    Moe("moe lost expert", lost(EXPERT + "up_proj.weight"), "1 tensor is missing"),
    Moe("moe more experts", config(num_experts=7), "6 tensors are missing"),
    Moe("moe fewer experts", config(num_experts=5), "6 tensors are of no use"),
    Moe("moe odd expert", shaped(EXPERT + "down_proj.weight", 12, 32), "of the wrong shape"),
    Moe("moe stacked", tensors(stacked), "6 tensors are missing"),
    Moe("moe infinite expert", infinite(EXPERT + "gate_proj.weight"), "NaN or infinite"),
    Two(
        "two of a trainer",
        config(model_type="llada2_moe_veomni"),
        '"model_type" is "llada2_moe_veomni", which is not supported',
    ),
    Two("two capacity", config(expert_capacity=1.25), '"expert_capacity" is 1.25; only null'),
    Two("two block routing", config(block_size=32), '"block_size" is 32; only null'),
    Two("two other vocabulary", without("eos_token_id"), '"eos_token_id" is missing, and the ids'),
    Two("two no head size", without("head_dim"), '"head_dim" is missing'),
    Two("two odd head size", config(head_dim=15), "(15) must be even"),
    Two("two rotary beyond", config(rotary_dim=18), "whole number from 1 to 16"),
    Two("two rotary odd", config(rotary_dim=7), "(7) must be even"),
    Two("two rotary differs", config(partial_rotary_factor=0.25), "is not rotary_dim (8)"),
    Two("two no share", without("partial_rotary_factor"), "is missing"),
    Two(
        "two rope dictionary",
        config(
            rope_parameters={
                "rope_type": "default",
                "rope_theta": 600000,
                "partial_rotary_factor": 0.5,
            }
        ),
        'must hold "rope_theta" and "rope_type": "default" alone',
    ),
    Two("two scaled rope", config(rope_scaling={"type": "linear"}), '"rope_scaling" is an object'),
    Two("two softmax", config(score_function="softmax"), 'only "sigmoid" is supported'),
    Two("two no bias", config(moe_router_enable_expert_bias=False), "only true is supported"),
    Two("two unnormalised", config(norm_topk_prob=False), "only true is supported"),
    Two("two half router", config(router_dtype="bf16"), 'only "fp32" is supported'),
    Two("two biased qkv", config(use_qkv_bias=True), '"use_qkv_bias" is true'),
    Two("two no head norm", config(use_qk_norm=False), '"use_qk_norm" is false'),
    Two("two sliding", config(use_sliding_window=True), '"use_sliding_window" is true'),
    Two("two split", config(using_split_qkv_in_self_attention=True), "only false is supported"),
    Two("two normed head", config(norm_head=True), '"norm_head" is true'),
    Two("two uneven groups", config(n_group=3), "(3) must divide num_experts (8)"),
    Two("two lonely groups", config(n_group=8), "into groups of two or more"),
    Two("two kept groups", config(topk_group=3), "whole number from 1 to 2"),
    Two("two too many chosen", config(num_experts_per_tok=5), "whole number from 1 to 4"),
    Two("two dense beyond", config(first_k_dense_replace=3), "whole number from 0 to 2"),
    Two("two dense negative", config(first_k_dense_replace=-1), "whole number from 0 to 2"),
    Two("two no dense", config(first_k_dense_replace=0), "tensors are missing"),
    Two("two no scale", config(routed_scaling_factor=0), "positive number"),
    Two("two no shared", config(num_shared_experts=0), "whole number from 1"),
    Two("two more shared", config(num_shared_experts=2), "3 tensors are of the wrong shape"),
    Two("two no router bias", lost(LAYER + "mlp.gate.expert_bias"), "1 tensor is missing"),
    Two("two router bias a matrix", shaped(LAYER + "mlp.gate.expert_bias", 8, 1), "wrong shape"),
    Two("two split tensors", shaped(LAYER + "attention.q_proj.weight", 64, 32), "of no use"),
    Two("two heads cut", shaped(LAYER + "attention.dense.weight", 32, 32), "wrong shape"),
    Two("two infinite bias", infinite(LAYER + "mlp.gate.expert_bias"), "NaN or infinite"),
]
