"""The table of model families: what distinguishes LLaDA from Dream, as data.

A row says which config keys describe the network, which settings the network here does not know
and therefore refuses, and which tensor of the checkpoint fills which rows of which parameter. No
code asks for a family by name. Families with more switches (experts, q/k norms, a block-causal
mask) are further rows once the network has those parts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto


class Part(Enum):
    """Which rows of a (fused) parameter one tensor of the checkpoint fills."""

    ALL = auto()
    QUERIES = auto()
    KEYS = auto()
    VALUES = auto()
    GATE = auto()
    UP = auto()


@dataclass(frozen=True)
class Placement:
    """One tensor of the checkpoint and its place in the network; `{i}` stands for the layer."""

    tensor: str
    parameter: str
    part: Part = Part.ALL


@dataclass(frozen=True)
class Keys:
    """The config key that gives each number of the network's shape."""

    layers: str
    width: str
    heads: str
    kv_heads: str
    inner: str
    vocabulary: str
    norm_epsilon: str
    max_positions: str


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
    """Config keys that must be there, with the only value the network implements."""
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

PROMPT_BLIND = replace(LLADA, name="PromptBlindLLaDAModelLM", blind=True, models=())
"""Ours alone: LLaDA's tensors and config keys, trained with a prompt that does not see the response."""

ARCHITECTURES: Mapping[str, Architecture] = {row.name: row for row in (LLADA, DREAM, PROMPT_BLIND)}
