"""What several families share: names of config keys and tensors, and what belongs to a common tokenizer."""

from archer.loading.architecture import In, Keys, MatrixPart, Placement, SpecialIds

LING = SpecialIds(vocabulary=157184, mask=156895, eos=156892)
"""Both mixtures were made of Ling: they share its tokenizer, and neither has the ids in its config.json."""
KEYS = Keys(
    layers="num_hidden_layers",
    width="hidden_size",
    heads="num_attention_heads",
    kv_heads="num_key_value_heads",
    vocabulary="vocab_size",
    norm_epsilon="rms_norm_eps",
    max_positions="max_position_embeddings",
)
QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    r"|[^\r\n\p{L}\p{N}]?\p{L}+"
    r"|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s+"
)
"""How the tokenizers of Qwen2 and Qwen3 split text before merging; Dream has Qwen2's."""


HEAD_NORMS = (
    Placement("model.layers.{i}.self_attn.q_norm.weight", "layers.{i}.query_norm"),
    Placement("model.layers.{i}.self_attn.k_norm.weight", "layers.{i}.key_norm"),
)


def frame(embedding: str) -> tuple[Placement, ...]:
    """The tensors outside of the layers."""
    return (
        Placement(f"model.{embedding}.weight", "embedding"),
        Placement("model.norm.weight", "norm"),
        Placement("lm_head.weight", "head"),
    )


def projections(kind: str, parameter: str) -> tuple[Placement, ...]:
    """Weights or biases of queries, keys and values, a tensor each."""
    parts = (("q", MatrixPart.QUERIES), ("k", MatrixPart.KEYS), ("v", MatrixPart.VALUES))
    return tuple(
        Placement(f"model.layers.{{i}}.self_attn.{name}_proj.{kind}", parameter, part)
        for name, part in parts
    )


def attention(*more: Placement) -> tuple[Placement, ...]:
    """The norms of a layer and its attention as Llama names them, with `more` before the output."""
    return (
        Placement("model.layers.{i}.input_layernorm.weight", "layers.{i}.attention_norm"),
        *projections("weight", "layers.{i}.qkv"),
        *more,
        Placement("model.layers.{i}.self_attn.o_proj.weight", "layers.{i}.out"),
        Placement("model.layers.{i}.post_attention_layernorm.weight", "layers.{i}.feed_norm"),
    )


def swiglu(tensors: str, prefix: str = "", layers: In = In.EVERY) -> tuple[Placement, ...]:
    """Gate, up and down of a feed-forward; `prefix` is that of the parameters' names."""
    gate_up, down = f"layers.{{i}}.{prefix}gate_up", f"layers.{{i}}.{prefix}down"
    return (
        Placement(
            f"model.layers.{{i}}.{tensors}.gate_proj.weight", gate_up, MatrixPart.GATE, layers
        ),
        Placement(f"model.layers.{{i}}.{tensors}.up_proj.weight", gate_up, MatrixPart.UP, layers),
        Placement(f"model.layers.{{i}}.{tensors}.down_proj.weight", down, layers=layers),
    )
