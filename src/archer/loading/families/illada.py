"""iLLaDA: Llama's layers with full attention, head and embedding in one."""

from dataclasses import replace

from archer.loading.architecture import Architecture, KnownModel, SpecialIds
from archer.loading.families.common import KEYS, attention, frame, swiglu

SIZE = 7_615_025_152

ILLADA = Architecture(
    family="illada",
    name="ILLaDAForCausalLM",
    model_type=None,
    shift=False,
    qkv_bias=False,
    rope_float32=False,
    keys=replace(KEYS, inner="intermediate_size", tied="tie_word_embeddings"),
    fixed={"attention_bias": False, "hidden_act": "silu", "mlp_bias": False},
    if_given={
        "layer_norm_eps": None,
        "quantization_config": None,
        "rope_scaling": (None, {"rope_type": "default", "factor": 1.0}),
    },
    equal=(),
    placements=(
        *frame("embed_tokens"),
        *attention(),
        *swiglu("mlp"),
    ),
    trained_window=None,
    turn_ends=("<[EOS]>",),
    split_pattern=None,
    models=(
        KnownModel("GSAI-ML/iLLaDA-8B-Instruct", "chat, thinks before it answers", SIZE),
        KnownModel("GSAI-ML/iLLaDA-8B-Base", "before instruction tuning: raw prompts", SIZE),
    ),
    special_ids=SpecialIds(vocabulary=155136, mask=5, eos=2),
    mask_tokens=("<[MASK]>",),
    method="illada",
)
