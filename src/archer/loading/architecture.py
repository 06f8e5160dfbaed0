"""What a family of checkpoints can differ in: the columns of the table of families."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from archer.network.shape import DENSE, AttentionKind, Router


class MatrixPart(Enum):
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
    """One tensor of the checkpoint and its place; `{i}` is the layer, `{e}` the expert of a stack."""

    tensor: str
    parameter: str
    part: MatrixPart = MatrixPart.ALL
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
    tied: str | None = None
    """Whether the vocabulary head is the embedding; None where it never is."""
    block: str | None = None
    """Columns per block of attention; None where the row's own attention says it."""


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
    parameters: int
    method: str | None = None
    """What it was released with, where that is not the row's."""
    assumed: Mapping[str, object] = field(default_factory=dict)
    """Config keys that its released files may lack, and their values."""


@dataclass(frozen=True)
class Architecture:
    """One family of checkpoints."""

    family: str
    """What users call it; each row has its own."""
    name: str
    """The first entry of `architectures` in config.json; several families may share it."""
    model_type: str | None
    """What config.json calls the kind of model; several families may share it, None where any will do."""
    shift: bool
    """True where the network's output at one column scores the token of the next column."""
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
    attention: AttentionKind = DENSE
    """What a column sees."""
    hint: str = ""
    """Found in the names of its models, where config.json is that of another family as well."""
    mask_tokens: tuple[str, ...] = ()
    """Spellings of the mask, where the tokenizer has it and does not say that it is the mask."""
    borrowed: bool = False
    """Its config.json is that of an autoregressive model: never taken for this family without a reason."""
    assumed: Mapping[str, object] = field(default_factory=dict)
    """Config keys that released files lack, and the values that the released code then takes."""
    per_layer_if_given: tuple[tuple[str, object], ...] = ()
    """As `per_layer`, for keys that may be missing."""
    template: Mapping[str, object] = field(default_factory=dict)
    """Variables that the chat template has to be given."""
    method: str | None = None
    """The method that its models were released with; None where Archer's own default decodes."""
    length: int | None = None
    """Tokens of a response in the released examples; None where the general default will do."""
