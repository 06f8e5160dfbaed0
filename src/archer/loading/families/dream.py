"""Dream and its descendants: shifted logits, and biases at queries, keys and values."""

from dataclasses import replace

from archer.loading.architecture import Architecture, KnownModel
from archer.loading.families.common import KEYS, QWEN_SPLIT, attention, frame, projections, swiglu

SIZE = 7_615_616_512

DREAM = Architecture(
    family="dream",
    name="DreamModel",
    model_type="Dream",
    shift=True,
    qkv_bias=True,
    rope_float32=False,
    keys=replace(KEYS, inner="intermediate_size"),
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
        *frame("embed_tokens"),
        *attention(*projections("bias", "layers.{i}.qkv_bias")),
        *swiglu("mlp"),
    ),
    trained_window=2048,
    turn_ends=("<|im_end|>", "<|dlm_pad|>"),
    split_pattern=QWEN_SPLIT,
    models=(
        KnownModel("Dream-org/Dream-v0-Instruct-7B", "chat", SIZE),
        KnownModel("Dream-org/Dream-v0-Base-7B", "before instruction tuning: raw prompts", SIZE),
        KnownModel("Dream-org/Dream-Coder-v0-Instruct-7B", "chat about code", SIZE),
        KnownModel("Dream-org/Dream-Coder-v0-Base-7B", "code, raw prompts", SIZE),
        KnownModel("apple/DiffuCoder-7B-cpGRPO", "chat about code, reinforcement-tuned", SIZE),
        KnownModel("apple/DiffuCoder-7B-Instruct", "chat about code", SIZE),
        KnownModel("apple/DiffuCoder-7B-Base", "code, raw prompts", SIZE),
    ),
)
