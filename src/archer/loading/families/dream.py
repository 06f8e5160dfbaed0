"""Dream and its descendants: shifted logits, and biases at queries, keys and values."""

from archer.loading.architecture import Architecture, Keys, KnownModel, MatrixPart, Placement

DREAM = Architecture(
    name="DreamModel",
    model_type="Dream",
    shift=True,
    qkv_bias=True,
    rope_float32=False,
    keys=Keys(
        layers="num_hidden_layers",
        width="hidden_size",
        heads="num_attention_heads",
        kv_heads="num_key_value_heads",
        inner="intermediate_size",
        vocabulary="vocab_size",
        norm_epsilon="rms_norm_eps",
        max_positions="max_position_embeddings",
    ),
    fixed={
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "use_sliding_window": False,
    },
    if_given={
        "quantization_config": None,
        "rope_scaling": None,
        "use_mrope": False,
    },
    equal=(),
    placements=(
        Placement("model.embed_tokens.weight", "embedding"),
        Placement("model.norm.weight", "norm"),
        Placement("lm_head.weight", "head"),
        Placement("model.layers.{i}.input_layernorm.weight", "layers.{i}.attention_norm"),
        Placement("model.layers.{i}.self_attn.q_proj.weight", "layers.{i}.qkv", MatrixPart.QUERIES),
        Placement("model.layers.{i}.self_attn.k_proj.weight", "layers.{i}.qkv", MatrixPart.KEYS),
        Placement("model.layers.{i}.self_attn.v_proj.weight", "layers.{i}.qkv", MatrixPart.VALUES),
        Placement(
            "model.layers.{i}.self_attn.q_proj.bias", "layers.{i}.qkv_bias", MatrixPart.QUERIES
        ),
        Placement("model.layers.{i}.self_attn.k_proj.bias", "layers.{i}.qkv_bias", MatrixPart.KEYS),
        Placement(
            "model.layers.{i}.self_attn.v_proj.bias", "layers.{i}.qkv_bias", MatrixPart.VALUES
        ),
        Placement("model.layers.{i}.self_attn.o_proj.weight", "layers.{i}.out"),
        Placement("model.layers.{i}.post_attention_layernorm.weight", "layers.{i}.feed_norm"),
        Placement("model.layers.{i}.mlp.gate_proj.weight", "layers.{i}.gate_up", MatrixPart.GATE),
        Placement("model.layers.{i}.mlp.up_proj.weight", "layers.{i}.gate_up", MatrixPart.UP),
        Placement("model.layers.{i}.mlp.down_proj.weight", "layers.{i}.down"),
    ),
    trained_window=2048,
    turn_ends=("<|im_end|>", "<|dlm_pad|>"),
    split_pattern=(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
        r"|[^\r\n\p{L}\p{N}]?\p{L}+"
        r"|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+"
        r"|\s+(?!\S)"
        r"|\s+"
    ),
    models=(
        KnownModel("Dream-org/Dream-v0-Instruct-7B", "7B, chat"),
        KnownModel("Dream-org/Dream-v0-Base-7B", "7B, before instruction tuning: raw prompts"),
        KnownModel("Dream-org/Dream-Coder-v0-Instruct-7B", "7B, chat about code"),
        KnownModel("Dream-org/Dream-Coder-v0-Base-7B", "7B, code, raw prompts"),
        KnownModel("apple/DiffuCoder-7B-cpGRPO", "7B, chat about code, reinforcement-tuned"),
        KnownModel("apple/DiffuCoder-7B-Instruct", "7B, chat about code"),
        KnownModel("apple/DiffuCoder-7B-Base", "7B, code, raw prompts"),
    ),
)
