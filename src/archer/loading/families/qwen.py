"""What was made of Qwen2 and Qwen3: A2D, OPDLM, SDAR, CoDA, Open-dCoder and RND1.

Their networks differ in q/k norms or biases, in the alignment of the logits and in what a column sees.  A
released A2D folder does not say whether it is to be decoded with full attention (mdlm) or block by block
(bd3lm): the model's name does, or whoever loads it.
"""

from dataclasses import replace

from archer.loading.architecture import (
    Architecture,
    ExpertKeys,
    KnownModel,
    Placement,
    SpecialIds,
)
from archer.loading.families.common import (
    HEAD_NORMS,
    KEYS,
    QWEN_SPLIT,
    attention,
    frame,
    projections,
    swiglu,
)
from archer.network.shape import Blocks, Router

KEYS_QWEN2 = replace(KEYS, inner="intermediate_size", tied="tie_word_embeddings")
KEYS_QWEN3 = replace(KEYS_QWEN2, head_dim="head_dim")
FIXED = {"hidden_act": "silu", "use_sliding_window": False}
IF_GIVEN = {"quantization_config": None, "rope_scaling": None, "sliding_window": None}
NO_THINKING = {"enable_thinking": False}
ENDS = ("<|im_end|>", "<|endoftext|>")
CODER_SIZE, SMALL = 494_032_768, 596_049_920
CHAT = "dllm-hub/Qwen3-0.6B-diffusion"
CODER = "dllm-hub/Qwen2.5-Coder-0.5B-Instruct-diffusion"

A2D_QWEN3 = Architecture(
    family="a2d-qwen3",
    name="A2DQwen3LMHeadModel",
    model_type="a2d-qwen3",
    shift=False,
    qkv_bias=False,
    rope_float32=False,
    keys=KEYS_QWEN3,
    fixed={**FIXED, "attention_bias": False},
    if_given=IF_GIVEN,
    equal=(),
    placements=(*frame("embed_tokens"), *attention(), *HEAD_NORMS, *swiglu("mlp")),
    trained_window=None,
    turn_ends=ENDS,
    split_pattern=QWEN_SPLIT,
    models=(KnownModel(f"{CHAT}-mdlm-v0.1", "chat", SMALL),),
    qk_norm=True,
    special_ids=SpecialIds(vocabulary=151936, mask=151669, eos=151645),
    mask_tokens=("<|mask|>",),
    per_layer_if_given=(("layer_types", "full_attention"),),
    template=NO_THINKING,
    method="a2d",
    length=128,
)


def _in_blocks(row: Architecture, model: KnownModel) -> Architecture:
    """The same network, trained to be decoded block by block."""
    return replace(
        row,
        family=f"{row.family}-bd3lm",
        hint="bd3lm",
        attention=Blocks(32, from_response=True),
        models=(model,),
        method="bd3lm",
    )


A2D_QWEN3_BLOCKS = _in_blocks(
    A2D_QWEN3, KnownModel(f"{CHAT}-bd3lm-v0.1", "chat, block by block", SMALL)
)
OPDLM = replace(
    A2D_QWEN3_BLOCKS,
    family="opdlm",
    hint="opdlm",
    attention=Blocks(4, from_response=True),
    models=(
        KnownModel("divelab/OPDLM-0.6B", "chat, block by block", SMALL),
        KnownModel("divelab/OPDLM-1.7B", "chat, block by block", 1_720_574_976),
        KnownModel("divelab/OPDLM-4B", "chat, block by block", 4_022_468_096),
        KnownModel("divelab/OPDLM-8B", "chat, block by block", 8_190_735_360),
    ),
)
A2D_QWEN2 = replace(
    A2D_QWEN3,
    family="a2d-qwen2",
    name="A2DQwen2LMHeadModel",
    model_type="a2d-qwen2",
    qkv_bias=True,
    keys=KEYS_QWEN2,
    fixed=FIXED,
    placements=(
        *frame("embed_tokens"),
        *attention(),
        *projections("bias", "layers.{i}.qkv_bias"),
        *swiglu("mlp"),
    ),
    models=(KnownModel(f"{CODER}-mdlm-v0.1", "chat about code", CODER_SIZE),),
    qk_norm=False,
    special_ids=SpecialIds(vocabulary=151936, mask=151665, eos=151645),
)
A2D_QWEN2_BLOCKS = _in_blocks(
    A2D_QWEN2, KnownModel(f"{CODER}-bd3lm-v0.1", "chat about code, block by block", CODER_SIZE)
)
OPEN_DCODER = replace(
    A2D_QWEN2,
    family="open-dcoder",
    name="Qwen2ForCausalLM",
    model_type="qwen2",
    shift=True,
    models=(KnownModel("fredzzp/open-dcoder-0.5B", "code", CODER_SIZE),),
    mask_tokens=("<M>",),
    borrowed=True,
    method="p2",
)
CODA = replace(
    A2D_QWEN3,
    family="coda",
    name="CoDALanguageModel",
    model_type="CoDA",
    shift=True,
    fixed={},
    if_given={**IF_GIVEN, **FIXED, "attention_bias": False},
    models=(
        KnownModel(
            "Salesforce/CoDA-v0-Instruct", "chat about code; not for commercial use", 2_031_739_904
        ),
        KnownModel("Salesforce/CoDA-v0-Base", "code; not for commercial use", 2_031_739_904),
    ),
    assumed={"tie_word_embeddings": True},
    method="dream",
    length=256,
)
_BLOCK = {"block_size": 4}
SDAR = replace(
    A2D_QWEN3,
    family="sdar",
    name="SDARForCausalLM",
    model_type="sdar",
    keys=replace(KEYS_QWEN3, block="block_size"),
    attention=Blocks(4),
    models=(
        KnownModel("JetLM/SDAR-1.7B-Chat", "chat, block by block", 2_031_739_904, assumed=_BLOCK),
        KnownModel("JetLM/SDAR-4B-Chat", "chat, block by block", 4_411_424_256, assumed=_BLOCK),
        KnownModel("JetLM/SDAR-8B-Chat", "chat, block by block", 8_190_735_360, assumed=_BLOCK),
        KnownModel(
            "Gen-Verse/TraDo-4B-Instruct", "chat, block by block", 4_411_424_256, assumed=_BLOCK
        ),
        KnownModel(
            "Gen-Verse/TraDo-8B-Instruct", "chat, block by block", 8_190_735_360, assumed=_BLOCK
        ),
    ),
    mask_tokens=("<|MASK|>", "<MASK>"),
    method="sdar",
    length=None,
)
RND1 = replace(
    A2D_QWEN3,
    family="rnd1",
    name="RND1LM",
    model_type="rnd1",
    shift=True,
    keys=replace(
        KEYS_QWEN3,
        inner=None,
        experts=ExpertKeys(
            count="num_experts", active="num_experts_per_tok", inner="moe_intermediate_size"
        ),
    ),
    fixed={**FIXED, "attention_bias": False, "norm_topk_prob": True},
    if_given={**IF_GIVEN, "decoder_sparse_step": 1, "mlp_only_layers": []},
    placements=(
        *frame("embed_tokens"),
        *attention(),
        *HEAD_NORMS,
        Placement("model.layers.{i}.mlp.gate.weight", "layers.{i}.router"),
        *swiglu("mlp.experts.{e}", "expert_"),
    ),
    models=(
        KnownModel("radicalnumerics/RND1-Base-0910", "3B active, raw prompts", 30_532_122_624),
    ),
    router=Router.RENORMALISED,
    method=None,
    length=None,
)
