"""LLaDA2: block-causal attention, grouped experts, one shared by all rows."""

from dataclasses import replace

from archer.loading.architecture import Architecture, ExpertKeys, In, KnownModel, Placement
from archer.loading.families.common import KEYS, LING, frame, swiglu
from archer.network.shape import Blocks, Router

EDITS = "chat; edits placed tokens"
MINI, FLASH = 16_255_643_392, 102_889_705_216

LLADA2 = Architecture(
    family="llada2",
    name="LLaDA2MoeModelLM",
    model_type="llada2_moe",
    shift=False,
    qkv_bias=False,
    rope_float32=False,
    keys=replace(
        KEYS,
        inner="intermediate_size",
        head_dim="head_dim",
        rotary="rotary_dim",
        rotary_share="partial_rotary_factor",
        experts=ExpertKeys(
            count="num_experts",
            active="num_experts_per_tok",
            inner="moe_intermediate_size",
            shared_count="num_shared_experts",
            dense_layers="first_k_dense_replace",
            groups="n_group",
            kept_groups="topk_group",
            scale="routed_scaling_factor",
        ),
    ),
    fixed={
        "hidden_act": "silu",
        "moe_router_enable_expert_bias": True,
        "norm_topk_prob": True,
        "score_function": "sigmoid",
        "tie_word_embeddings": False,
        "use_bias": False,
        "use_qkv_bias": False,
    },
    if_given={
        "block_size": None,
        "expert_capacity": None,
        "norm_head": False,
        "norm_softmax": False,
        "quantization_config": None,
        "rope_scaling": None,
        "router_dtype": "fp32",
        "use_qk_norm": True,
        "use_rmsnorm": True,
        "use_sliding_window": False,
        "using_split_qkv_in_self_attention": False,
    },
    equal=(),
    placements=(
        *frame("word_embeddings"),
        Placement("model.layers.{i}.input_layernorm.weight", "layers.{i}.attention_norm"),
        Placement("model.layers.{i}.attention.query_key_value.weight", "layers.{i}.qkv"),
        Placement("model.layers.{i}.attention.query_layernorm.weight", "layers.{i}.query_norm"),
        Placement("model.layers.{i}.attention.key_layernorm.weight", "layers.{i}.key_norm"),
        Placement("model.layers.{i}.attention.dense.weight", "layers.{i}.out"),
        Placement("model.layers.{i}.post_attention_layernorm.weight", "layers.{i}.feed_norm"),
        *swiglu("mlp", layers=In.DENSE),
        Placement("model.layers.{i}.mlp.gate.weight", "layers.{i}.router", layers=In.SPARSE),
        Placement(
            "model.layers.{i}.mlp.gate.expert_bias", "layers.{i}.router_bias", layers=In.SPARSE
        ),
        *swiglu("mlp.experts.{e}", "expert_", In.SPARSE),
        *swiglu("mlp.shared_experts", layers=In.SPARSE),
    ),
    trained_window=None,
    turn_ends=("<|role_end|>",),
    split_pattern=None,
    models=(
        KnownModel("inclusionAI/LLaDA2.1-mini", f"1.4B active, {EDITS}", MINI, "llada2-edit"),
        KnownModel("inclusionAI/LLaDA2.1-flash", f"6B active, {EDITS}", FLASH, "llada2-edit"),
        KnownModel("inclusionAI/LLaDA2.0-mini", "1.4B active, chat", MINI),
        KnownModel("inclusionAI/LLaDA2.0-flash", "6B active, chat", FLASH),
    ),
    qk_norm=True,
    router=Router.GROUPED_SIGMOID,
    special_ids=LING,
    attention=Blocks(32),
    method="llada2",
)
