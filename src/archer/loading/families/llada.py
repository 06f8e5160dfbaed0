"""LLaDA, and the row of our own that differs from it in one word."""

from dataclasses import replace

from archer.loading.architecture import Architecture, Keys, KnownModel, MatrixPart, Placement
from archer.network.shape import PromptFirst

SIZE = 8_015_581_184

LLADA = Architecture(
    family="llada",
    name="LLaDAModelLM",
    model_type="llada",
    shift=False,
    qkv_bias=False,
    rope_float32=True,
    keys=Keys(
        layers="n_layers",
        width="d_model",
        heads="n_heads",
        kv_heads="n_kv_heads",
        inner="mlp_hidden_size",
        vocabulary="vocab_size",
        norm_epsilon="rms_norm_eps",
        max_positions="max_sequence_length",
    ),
    fixed={
        "activation_type": "silu",
        "alibi": False,
        "attention_layer_norm": False,
        "bias_for_layer_norm": False,
        "block_group_size": 1,
        "block_type": "llama",
        "include_bias": False,
        "include_qkv_bias": False,
        "input_emb_norm": False,
        "layer_norm_type": "rms",
        "layer_norm_with_affine": True,
        "rope": True,
        "rope_full_precision": True,
        "scale_logits": False,
        "weight_tying": False,
    },
    if_given={
        "clip_qkv": None,
        "multi_query_attention": None,
        "quantization_config": None,
        "rope_scaling": None,
    },
    equal=(("embedding_size", "vocab_size"),),
    placements=(
        Placement("model.transformer.wte.weight", "embedding"),
        Placement("model.transformer.ln_f.weight", "norm"),
        Placement("model.transformer.ff_out.weight", "head"),
        Placement("model.transformer.blocks.{i}.attn_norm.weight", "layers.{i}.attention_norm"),
        Placement(
            "model.transformer.blocks.{i}.q_proj.weight", "layers.{i}.qkv", MatrixPart.QUERIES
        ),
        Placement("model.transformer.blocks.{i}.k_proj.weight", "layers.{i}.qkv", MatrixPart.KEYS),
        Placement(
            "model.transformer.blocks.{i}.v_proj.weight", "layers.{i}.qkv", MatrixPart.VALUES
        ),
        Placement("model.transformer.blocks.{i}.attn_out.weight", "layers.{i}.out"),
        Placement("model.transformer.blocks.{i}.ff_norm.weight", "layers.{i}.feed_norm"),
        Placement(
            "model.transformer.blocks.{i}.ff_proj.weight", "layers.{i}.gate_up", MatrixPart.GATE
        ),
        Placement(
            "model.transformer.blocks.{i}.up_proj.weight", "layers.{i}.gate_up", MatrixPart.UP
        ),
        Placement("model.transformer.blocks.{i}.ff_out.weight", "layers.{i}.down"),
    ),
    trained_window=None,
    turn_ends=("<|eot_id|>",),
    split_pattern=None,
    models=(
        KnownModel("GSAI-ML/LLaDA-8B-Instruct", "chat; the model of most published numbers", SIZE),
        KnownModel("GSAI-ML/LLaDA-8B-Base", "before instruction tuning: raw prompts", SIZE),
        KnownModel("GSAI-ML/LLaDA-1.5", "chat, preference-tuned LLaDA-8B-Instruct", SIZE),
    ),
)

PROMPT_BLIND = replace(
    LLADA,
    family="prompt-blind",
    name="PromptBlindLLaDAModelLM",
    attention=PromptFirst(),
    models=(),
)
"""Ours alone: LLaDA's tensors and config keys, trained with a prompt that does not see the response."""
