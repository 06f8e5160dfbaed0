"""LLaDA-MoE: experts chosen by a softmax in every layer."""

from dataclasses import replace

from archer.loading.architecture import Architecture, ExpertKeys, KnownModel, Placement
from archer.loading.families.common import HEAD_NORMS, KEYS, LING, attention, frame, swiglu
from archer.network.shape import Router

SIZE = 7_356_880_896

LLADA_MOE = Architecture(
    family="llada-moe",
    name="LLaDAMoEModelLM",
    model_type="llada",
    shift=False,
    qkv_bias=False,
    rope_float32=False,
    keys=replace(
        KEYS,
        experts=ExpertKeys(
            count="num_experts", active="num_experts_per_tok", inner="expert_intermediate_size"
        ),
    ),
    fixed={
        "attention_bias": False,
        "hidden_act": "silu",
        "partial_rotary_factor": (1, 1.0),
        "qk_layernorm": True,
        "shared_expert_intermediate_size": None,
        "tie_word_embeddings": False,
    },
    if_given={
        "clip_qkv": None,
        "expert_capacity": None,
        "moe_router_enable_expert_bias": (False, None),
        "moe_router_score_function": ("softmax", None),
        "quantization_config": None,
        "rope_scaling": None,
        "routed_scaling_factor": (1, 1.0, None),
        "router_num_group": (None, -1),
        "router_topk_group": (None, -1),
    },
    equal=(),
    placements=(
        *frame("embed_tokens"),
        *attention(*HEAD_NORMS),
        Placement("model.layers.{i}.mlp.gate.weight", "layers.{i}.router"),
        *swiglu("mlp.experts.{e}", "expert_"),
    ),
    trained_window=None,
    turn_ends=("<|role_end|>",),
    split_pattern=None,
    models=(
        KnownModel("inclusionAI/LLaDA-MoE-7B-A1B-Instruct", "1B active, chat", SIZE),
        KnownModel("inclusionAI/LLaDA-MoE-7B-A1B-Base", "1B active, raw prompts", SIZE),
    ),
    qk_norm=True,
    router=Router.SOFTMAX,
    per_layer=(("moe_layer_freq", 1),),
    special_ids=LING,
)
