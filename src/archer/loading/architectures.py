"""The table of model families: what distinguishes LLaDA from Dream, as data.

A row says which config keys describe the network, which settings the network here does not know
and therefore refuses, and which tensor of the checkpoint fills which rows of which parameter. No
code asks for a family by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from archer.engine.router import Router


class Part(Enum):
    """Which rows of a (fused) parameter one tensor of the checkpoint fills."""

    ALL = auto()
    QUERIES = auto()
    KEYS = auto()
    VALUES = auto()
    GATE = auto()
    UP = auto()


class In(Enum):
    """Which layers have a tensor."""

    EVERY = auto()
    DENSE = auto()
    """Those with an ordinary feed-forward."""
    SPARSE = auto()
    """Those with experts."""


@dataclass(frozen=True)
class Placement:
    """One tensor of the checkpoint and its place in the network.

    `{i}` stands for the layer and `{e}` for the expert, whose weights are one entry of a stack.
    """

    tensor: str
    parameter: str
    part: Part = Part.ALL
    layers: In = In.EVERY


@dataclass(frozen=True)
class ExpertKeys:
    """The config key of each number of a mixture; None where the family has no such thing."""

    count: str
    active: str
    inner: str
    shared_count: str | None = None
    """Experts that every row goes through, each as wide as the others."""
    dense_layers: str | None = None
    groups: str | None = None
    kept_groups: str | None = None
    scale: str | None = None


@dataclass(frozen=True)
class Keys:
    """The config key that gives each number of the network's shape."""

    layers: str
    width: str
    heads: str
    kv_heads: str
    vocabulary: str
    norm_epsilon: str
    max_positions: str
    inner: str | None = None
    """Inner width of dense layers; None where there is none."""
    head_dim: str | None = None
    """None where it is the width divided by the heads."""
    rotary: str | None = None
    """Dimensions of a head that are rotated; None where all are."""
    rotary_share: str | None = None
    """The same number as a part of the head size, which must agree."""
    experts: ExpertKeys | None = None


@dataclass(frozen=True)
class SpecialIds:
    """Token ids that the family's samplers hold as constants, for configs without them."""

    vocabulary: int
    """Where they are valid: another vocabulary has other ids."""
    mask: int
    eos: int


@dataclass(frozen=True)
class KnownModel:
    """A hub repository that fits the row."""

    id: str
    note: str


@dataclass(frozen=True)
class Architecture:
    """One family of checkpoints."""

    name: str
    """The first entry of `architectures` in config.json."""
    model_type: str
    """What config.json calls the kind of model; several families may share a name."""
    shift: bool
    """True where the network's output at one column scores the token of the next column."""
    blind: bool
    """True where no column of the prompt sees the response: the prompt's keys and values never change."""
    qkv_bias: bool
    rope_float32: bool
    keys: Keys
    fixed: Mapping[str, object]
    """Config keys that must be there, with the only value the network implements; a tuple lists several."""
    if_given: Mapping[str, object]
    """Config keys that may be missing; where given, only this value is implemented."""
    equal: tuple[tuple[str, str], ...]
    """Pairs of config keys that must agree."""
    placements: tuple[Placement, ...]
    trained_window: int | None
    """Columns seen in training where the config claims more; above it results degrade."""
    turn_ends: tuple[str, ...]
    """Tokens, besides the config's end-of-sequence ids, after which a response is over."""
    split_pattern: str | None
    """How text is split before byte-pair merging; used where there is no tokenizer.json."""
    models: tuple[KnownModel, ...]
    qk_norm: bool = False
    router: Router | None = None
    """How rows are sent to experts; None for a dense family."""
    per_layer: tuple[tuple[str, object], ...] = ()
    """Config keys that hold a list with one entry per layer, and the only value of an entry."""
    special_ids: SpecialIds | None = None
    """None where config.json always has them."""
    attention_block: int | None = None
    """A column sees the blocks of so many positions up to its own; None where it sees everything."""


LLADA = Architecture(
    name="LLaDAModelLM",
    model_type="llada",
    shift=False,
    blind=False,
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
        Placement("model.transformer.blocks.{i}.q_proj.weight", "layers.{i}.qkv", Part.QUERIES),
        Placement("model.transformer.blocks.{i}.k_proj.weight", "layers.{i}.qkv", Part.KEYS),
        Placement("model.transformer.blocks.{i}.v_proj.weight", "layers.{i}.qkv", Part.VALUES),
        Placement("model.transformer.blocks.{i}.attn_out.weight", "layers.{i}.out"),
        Placement("model.transformer.blocks.{i}.ff_norm.weight", "layers.{i}.feed_norm"),
        Placement("model.transformer.blocks.{i}.ff_proj.weight", "layers.{i}.gate_up", Part.GATE),
        Placement("model.transformer.blocks.{i}.up_proj.weight", "layers.{i}.gate_up", Part.UP),
        Placement("model.transformer.blocks.{i}.ff_out.weight", "layers.{i}.down"),
    ),
    trained_window=None,
    turn_ends=("<|eot_id|>",),
    split_pattern=None,
    models=(
        KnownModel("GSAI-ML/LLaDA-8B-Instruct", "8B, chat; the model of most published numbers"),
        KnownModel("GSAI-ML/LLaDA-8B-Base", "8B, before instruction tuning: raw prompts"),
        KnownModel("GSAI-ML/LLaDA-1.5", "8B, chat, preference-tuned LLaDA-8B-Instruct"),
    ),
)

DREAM = Architecture(
    name="DreamModel",
    model_type="Dream",
    shift=True,
    blind=False,
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
        Placement("model.layers.{i}.self_attn.q_proj.weight", "layers.{i}.qkv", Part.QUERIES),
        Placement("model.layers.{i}.self_attn.k_proj.weight", "layers.{i}.qkv", Part.KEYS),
        Placement("model.layers.{i}.self_attn.v_proj.weight", "layers.{i}.qkv", Part.VALUES),
        Placement("model.layers.{i}.self_attn.q_proj.bias", "layers.{i}.qkv_bias", Part.QUERIES),
        Placement("model.layers.{i}.self_attn.k_proj.bias", "layers.{i}.qkv_bias", Part.KEYS),
        Placement("model.layers.{i}.self_attn.v_proj.bias", "layers.{i}.qkv_bias", Part.VALUES),
        Placement("model.layers.{i}.self_attn.o_proj.weight", "layers.{i}.out"),
        Placement("model.layers.{i}.post_attention_layernorm.weight", "layers.{i}.feed_norm"),
        Placement("model.layers.{i}.mlp.gate_proj.weight", "layers.{i}.gate_up", Part.GATE),
        Placement("model.layers.{i}.mlp.up_proj.weight", "layers.{i}.gate_up", Part.UP),
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

_LING = SpecialIds(vocabulary=157184, mask=156895, eos=156892)
"""Both mixtures share a tokenizer, and neither has the ids in its config.json."""

LLADA_MOE = Architecture(
    name="LLaDAMoEModelLM",
    model_type="llada",
    blind=False,
    shift=False,
    qkv_bias=False,
    rope_float32=False,
    keys=Keys(
        layers="num_hidden_layers",
        width="hidden_size",
        heads="num_attention_heads",
        kv_heads="num_key_value_heads",
        vocabulary="vocab_size",
        norm_epsilon="rms_norm_eps",
        max_positions="max_position_embeddings",
        experts=ExpertKeys(
            count="num_experts",
            active="num_experts_per_tok",
            inner="expert_intermediate_size",
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
        Placement("model.embed_tokens.weight", "embedding"),
        Placement("model.norm.weight", "norm"),
        Placement("lm_head.weight", "head"),
        Placement("model.layers.{i}.input_layernorm.weight", "layers.{i}.attention_norm"),
        Placement("model.layers.{i}.self_attn.q_proj.weight", "layers.{i}.qkv", Part.QUERIES),
        Placement("model.layers.{i}.self_attn.k_proj.weight", "layers.{i}.qkv", Part.KEYS),
        Placement("model.layers.{i}.self_attn.v_proj.weight", "layers.{i}.qkv", Part.VALUES),
        Placement("model.layers.{i}.self_attn.q_norm.weight", "layers.{i}.query_norm"),
        Placement("model.layers.{i}.self_attn.k_norm.weight", "layers.{i}.key_norm"),
        Placement("model.layers.{i}.self_attn.o_proj.weight", "layers.{i}.out"),
        Placement("model.layers.{i}.post_attention_layernorm.weight", "layers.{i}.feed_norm"),
        Placement("model.layers.{i}.mlp.gate.weight", "layers.{i}.router"),
        Placement(
            "model.layers.{i}.mlp.experts.{e}.gate_proj.weight",
            "layers.{i}.expert_gate_up",
            Part.GATE,
        ),
        Placement(
            "model.layers.{i}.mlp.experts.{e}.up_proj.weight",
            "layers.{i}.expert_gate_up",
            Part.UP,
        ),
        Placement("model.layers.{i}.mlp.experts.{e}.down_proj.weight", "layers.{i}.expert_down"),
    ),
    trained_window=None,
    turn_ends=("<|role_end|>",),
    split_pattern=None,
    models=(
        KnownModel("inclusionAI/LLaDA-MoE-7B-A1B-Instruct", "7B, 1B active, chat"),
        KnownModel("inclusionAI/LLaDA-MoE-7B-A1B-Base", "7B, 1B active, raw prompts"),
    ),
    qk_norm=True,
    router=Router.SOFTMAX,
    per_layer=(("moe_layer_freq", 1),),
    special_ids=_LING,
)

LLADA2 = Architecture(
    name="LLaDA2MoeModelLM",
    model_type="llada2_moe",
    blind=False,
    shift=False,
    qkv_bias=False,
    rope_float32=False,
    keys=Keys(
        layers="num_hidden_layers",
        width="hidden_size",
        heads="num_attention_heads",
        kv_heads="num_key_value_heads",
        vocabulary="vocab_size",
        norm_epsilon="rms_norm_eps",
        max_positions="max_position_embeddings",
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
        Placement("model.word_embeddings.weight", "embedding"),
        Placement("model.norm.weight", "norm"),
        Placement("lm_head.weight", "head"),
        Placement("model.layers.{i}.input_layernorm.weight", "layers.{i}.attention_norm"),
        Placement("model.layers.{i}.attention.query_key_value.weight", "layers.{i}.qkv"),
        Placement("model.layers.{i}.attention.query_layernorm.weight", "layers.{i}.query_norm"),
        Placement("model.layers.{i}.attention.key_layernorm.weight", "layers.{i}.key_norm"),
        Placement("model.layers.{i}.attention.dense.weight", "layers.{i}.out"),
        Placement("model.layers.{i}.post_attention_layernorm.weight", "layers.{i}.feed_norm"),
        Placement(
            "model.layers.{i}.mlp.gate_proj.weight", "layers.{i}.gate_up", Part.GATE, In.DENSE
        ),
        Placement("model.layers.{i}.mlp.up_proj.weight", "layers.{i}.gate_up", Part.UP, In.DENSE),
        Placement("model.layers.{i}.mlp.down_proj.weight", "layers.{i}.down", layers=In.DENSE),
        Placement("model.layers.{i}.mlp.gate.weight", "layers.{i}.router", layers=In.SPARSE),
        Placement(
            "model.layers.{i}.mlp.gate.expert_bias", "layers.{i}.router_bias", layers=In.SPARSE
        ),
        Placement(
            "model.layers.{i}.mlp.experts.{e}.gate_proj.weight",
            "layers.{i}.expert_gate_up",
            Part.GATE,
            In.SPARSE,
        ),
        Placement(
            "model.layers.{i}.mlp.experts.{e}.up_proj.weight",
            "layers.{i}.expert_gate_up",
            Part.UP,
            In.SPARSE,
        ),
        Placement(
            "model.layers.{i}.mlp.experts.{e}.down_proj.weight",
            "layers.{i}.expert_down",
            layers=In.SPARSE,
        ),
        Placement(
            "model.layers.{i}.mlp.shared_experts.gate_proj.weight",
            "layers.{i}.gate_up",
            Part.GATE,
            In.SPARSE,
        ),
        Placement(
            "model.layers.{i}.mlp.shared_experts.up_proj.weight",
            "layers.{i}.gate_up",
            Part.UP,
            In.SPARSE,
        ),
        Placement(
            "model.layers.{i}.mlp.shared_experts.down_proj.weight",
            "layers.{i}.down",
            layers=In.SPARSE,
        ),
    ),
    trained_window=None,
    turn_ends=("<|role_end|>",),
    split_pattern=None,
    models=(
        KnownModel("inclusionAI/LLaDA2.1-mini", "16B, 1.4B active, chat; edits placed tokens"),
        KnownModel("inclusionAI/LLaDA2.1-flash", "100B, 6B active, chat; edits placed tokens"),
        KnownModel("inclusionAI/LLaDA2.0-mini", "16B, 1.4B active, chat"),
        KnownModel("inclusionAI/LLaDA2.0-flash", "100B, 6B active, chat"),
    ),
    qk_norm=True,
    router=Router.GROUPED_SIGMOID,
    special_ids=_LING,
    attention_block=32,
)

PROMPT_BLIND = replace(LLADA, name="PromptBlindLLaDAModelLM", blind=True, models=())
"""Ours alone: LLaDA's tensors and config keys, trained with a prompt that does not see the response."""

ARCHITECTURES: Mapping[str, Architecture] = {
    row.name: row for row in (LLADA, DREAM, LLADA_MOE, LLADA2, PROMPT_BLIND)
}
