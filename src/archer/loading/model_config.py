"""config.json -> architecture, shape and token ids, with nothing guessed.

Every number the network needs is read by name and checked for type and range. A missing key is
refused; the defaults that other libraries would fill in are those of a different model.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeGuard

from archer.errors import BadModel, BadRequest, meant
from archer.loading.architecture import Architecture, ExpertKeys, Keys
from archer.loading.architectures import ARCHITECTURES, known, row_for
from archer.loading.model_files import Json, kind_of
from archer.network.network import Shape
from archer.network.shape import AttentionKind, Blocks, Experts
from archer.passes.bounds import MOST_BLOCK

LARGEST_LAYERS = 1 << 10
LARGEST_SIZE = 1 << 24
LARGEST_REAL = 1e15
"""No published model comes near these; a config beyond them is a mistake or a trap."""
MOST_EXPERTS = 1 << 14
"""Experts of all layers together; LLaDA2-flash has half of it."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelConfig:
    """What config.json says, checked."""

    architecture: Architecture
    shape: Shape
    mask: int
    eos: tuple[int, ...]


@dataclass(frozen=True)
class Provenance:
    """Where a config comes from: what is known of the model beside it."""

    name: str = ""
    """Hub id or folder: it may tell families apart whose configs are the same."""
    family: str | None = None
    """The row of the table, where the user has named it."""
    mask_of: Callable[[Architecture], int | None] = lambda row: None
    """Finds the mask in the tokenizer, for configs without it."""


UNKNOWN = Provenance()


def parse_config(config: Json, where: str, beside: Provenance = UNKNOWN) -> ModelConfig:
    """Check the whole config; `where` names its file in the refusals."""
    values = _Values(config, where)
    architecture = _architecture(values, beside)
    values = replace(values, config=_released(architecture, beside.name) | config)
    _check_type(values, architecture)
    _check_settings(values, architecture)
    shape = _shape(values, architecture)
    mask, eos = _special_ids(values, architecture, shape.vocabulary, beside)
    if mask in eos:
        raise values.refused("mask_token_id", f"is {mask}, which eos_token_id names too")
    return ModelConfig(architecture, shape, mask, eos)


def _released(row: Architecture, name: str) -> Json:
    """Keys that released files may lack: the family's, the model's, and a block that ends its name (-b32)."""
    published, ending = known(name), re.search(r"-b(\d{1,4})$", name)
    block = {row.keys.block: int(ending[1])} if row.keys.block and ending else {}
    return {**row.assumed, **(published.assumed if published else {}), **block}


def config_for(architecture: Architecture, shape: Shape, mask: int, eos: int) -> Json:
    """A config.json that says what the shape says; the inverse of `parse_config`."""
    keys, experts = architecture.keys, architecture.keys.experts
    numbers: dict[str | None, object] = _by_key(keys, shape)
    if shape.rotary is not None:
        numbers[keys.rotary_share] = shape.rotary / shape.head_dim
    if experts is not None and shape.experts is not None:
        numbers |= _by_key(experts, shape.experts)
        numbers[experts.shared_count] = shape.experts.shared // shape.experts.inner
    if isinstance(shape.attention, Blocks):
        numbers[keys.block] = shape.attention.size
    config: Json = {
        **{key: _first(value) for key, value in architecture.fixed.items()},
        **{key: value for key, value in numbers.items() if key is not None},
        **{key: [entry] * shape.layers for key, entry in architecture.per_layer},
        "architectures": [architecture.name],
        "rope_theta": shape.rope_theta,
        "mask_token_id": mask,
        "eos_token_id": eos,
    }
    return config | {first: config[second] for first, second in architecture.equal}


def _by_key(keys: Keys | ExpertKeys, values: Shape | Experts) -> dict[str | None, object]:
    """The value of each config key that is named like a number of the network."""
    named = {key: getattr(values, name, None) for name, key in vars(keys).items() if key}
    return {key: value for key, value in named.items() if isinstance(value, int | float)}


def _first(value: object) -> object:
    """Of several values that are supported the first."""
    return value[0] if isinstance(value, tuple) else value


@dataclass(frozen=True)
class _Values:
    """Typed access to the keys; each refusal names file and key."""

    config: Json
    where: str

    def refused(self, key: str, reason: str) -> BadModel:
        return BadModel(f"{self.where}: {kind_of(key)} {reason}.")

    def get(self, key: str) -> object:
        if key not in self.config:
            raise BadModel(
                f"{self.where}: the key {kind_of(key)} is missing, and Archer does not guess it; "
                "take config.json from the model's original repository, or add the key."
            )
        return self.config[key]

    def whole(self, key: str, largest: int, smallest: int = 1) -> int:
        value = self.get(key)
        if type(value) is not int or not smallest <= value <= largest:
            expected = f"must be a whole number from {smallest} to {largest}"
            raise self.refused(key, f"{expected}, not {kind_of(value)}")
        return value

    def flag(self, key: str) -> bool:
        value = self.get(key)
        if not isinstance(value, bool):
            raise self.refused(key, f"must be true or false, not {kind_of(value)}")
        return value

    def positive(self, key: str) -> float:
        value = self.get(key)
        if not _is_number(value) or not 0 < value <= LARGEST_REAL:
            raise self.refused(key, f"must be a positive number, not {kind_of(value)}")
        return float(value)

    def token(self, key: str, vocabulary: int) -> int:
        return self._token(key, self.get(key), vocabulary)

    def tokens(self, key: str, vocabulary: int) -> tuple[int, ...]:
        value = self.get(key)
        several = value if isinstance(value, list) else [value]
        if not several:
            raise self.refused(key, "must name at least one token")
        return tuple(self._token(key, each, vocabulary) for each in several)

    def _token(self, key: str, value: object, vocabulary: int) -> int:
        if type(value) is not int or not 0 <= value < vocabulary:
            allowed = f"a token id from 0 to {vocabulary - 1} (the vocabulary)"
            raise self.refused(key, f"must be {allowed}, not {kind_of(value)}")
        return value


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _architecture(values: _Values, beside: Provenance) -> Architecture:
    names = values.get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise values.refused("architectures", f"must be a list of names, not {kind_of(names)}")
    row = row_for(names[0], beside.name)
    if beside.family is not None:
        return _named(values, beside.family, names[0])
    if row is None:
        supported = ", ".join(dict.fromkeys(each.name for each in ARCHITECTURES.values()))
        raise BadModel(
            f"{values.where}: the architecture {kind_of(names[0])} is not supported; "
            f"supported are {supported}."
        )
    if row.borrowed:
        _check_borrowed(values, row, beside)
    return row


def _named(values: _Values, family: str, architecture: str) -> Architecture:
    """The row that the user has named; its models must have this architecture."""
    if family not in ARCHITECTURES:
        raise BadRequest(
            f"There is no family {family!r} of models.{meant(family, ARCHITECTURES)} "
            f"Families: {', '.join(ARCHITECTURES)}."
        )
    row = ARCHITECTURES[family]
    if row.name != architecture:
        raise BadRequest(
            f"{values.where} says {kind_of(architecture)}, and models of the family {family!r} say "
            f"{kind_of(row.name)}. Leave the family out, or name another."
        )
    return row


def _check_borrowed(values: _Values, row: Architecture, beside: Provenance) -> None:
    """A config with the name of an autoregressive model needs the mask token as a second witness."""
    spelled = " or ".join(row.mask_tokens)
    if beside.mask_of(row) is None:
        raise BadModel(
            f"{values.where}: {kind_of(row.name)} is the name of an autoregressive model, which cannot be "
            f"decoded here. Models of the family {row.family!r} bear it too, but their tokenizer has the "
            f'mask token {spelled}, and this one has not; if it is one, say so (family="{row.family}").'
        )
    log.warning(
        "%s says %s, the name of an autoregressive model; it is loaded as %s, because its tokenizer has "
        "the mask token %s.",
        values.where,
        row.name,
        row.family,
        spelled,
    )


def _check_settings(values: _Values, architecture: Architecture) -> None:
    given = {key: v for key, v in architecture.if_given.items() if key in values.config}
    for key, expected in {**architecture.fixed, **given}.items():
        value = values.get(key)
        allowed = expected if isinstance(expected, tuple) else (expected,)
        if not any(type(value) is type(each) and value == each for each in allowed):
            supported = " or ".join(dict.fromkeys(kind_of(each) for each in allowed))
            what = f"is {kind_of(value)}; only {supported} is supported"
            raise values.refused(key, f"{what} for {architecture.name}")
    for first, second in architecture.equal:
        if values.get(first) != values.get(second):
            raise values.refused(first, f"differs from {kind_of(second)}; they must be equal")


def _check_type(values: _Values, architecture: Architecture) -> None:
    """`model_type` does not choose the family, but an unknown one is another kind of model."""
    if "model_type" in values.config and architecture.model_type is not None:
        kind = values.config["model_type"]
        supported = [row.model_type for row in ARCHITECTURES.values() if row.model_type]
        if kind not in supported:
            raise values.refused(
                "model_type",
                f"is {kind_of(kind)}, which is not supported; supported are "
                f"{', '.join(dict.fromkeys(supported))}",
            )


def _special_ids(
    values: _Values, architecture: Architecture, vocabulary: int, beside: Provenance
) -> tuple[int, tuple[int, ...]]:
    """Mask id and end ids.

    The config's own, else the tokenizer's mask, else the family's constants where the vocabulary is its own.
    """
    if "mask_token_id" not in values.config:
        mask = beside.mask_of(architecture)
        if mask is not None:
            values = replace(values, config=values.config | {"mask_token_id": mask})
    constants = architecture.special_ids
    absent = [key for key in ("mask_token_id", "eos_token_id") if key not in values.config]
    if constants is not None and absent:
        if vocabulary != constants.vocabulary:
            raise BadModel(
                f"{values.where}: the key {kind_of(absent[0])} is missing, and the ids of "
                f"{architecture.name} are known for a vocabulary of {constants.vocabulary} only, not of "
                f"{vocabulary}; add the key."
            )
        family: Json = {"mask_token_id": constants.mask, "eos_token_id": constants.eos}
        values = replace(values, config=family | values.config)
    return values.token("mask_token_id", vocabulary), values.tokens("eos_token_id", vocabulary)


def _shape(values: _Values, architecture: Architecture) -> Shape:
    keys = architecture.keys
    layers = values.whole(keys.layers, LARGEST_LAYERS)
    width = values.whole(keys.width, LARGEST_SIZE)
    heads = values.whole(keys.heads, LARGEST_SIZE)
    kv_heads = values.whole(keys.kv_heads, LARGEST_SIZE)
    head_dim = _head_dim(values, architecture, width, heads)
    if heads % kv_heads:
        raise values.refused(keys.kv_heads, f"({kv_heads}) must divide {keys.heads} ({heads})")
    for key, entry in architecture.per_layer:
        _check_per_layer(values, key, entry, layers)
    for key, entry in architecture.per_layer_if_given:
        if key in values.config:
            _check_per_layer(values, key, entry, layers)
    return Shape(
        layers=layers,
        width=width,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        inner=0 if keys.inner is None else values.whole(keys.inner, LARGEST_SIZE),
        vocabulary=values.whole(keys.vocabulary, LARGEST_SIZE),
        norm_epsilon=values.positive(keys.norm_epsilon),
        rope_theta=_rope_theta(values),
        qkv_bias=architecture.qkv_bias,
        rope_float32=architecture.rope_float32,
        max_positions=values.whole(keys.max_positions, LARGEST_SIZE),
        qk_norm=architecture.qk_norm,
        rotary=_rotary(values, architecture, head_dim),
        experts=_experts(values, architecture, layers),
        shift=architecture.shift,
        attention=_attention(values, architecture),
        tied=keys.tied is not None and values.flag(keys.tied),
    )


def _attention(values: _Values, architecture: Architecture) -> AttentionKind:
    """The row's, with the block of the config where it names one."""
    kind, key = architecture.attention, architecture.keys.block
    if key is None or not isinstance(kind, Blocks):
        return kind
    return replace(kind, size=values.whole(key, MOST_BLOCK))


def _head_dim(values: _Values, architecture: Architecture, width: int, heads: int) -> int:
    keys = architecture.keys
    if keys.head_dim is not None:
        size = values.whole(keys.head_dim, LARGEST_SIZE)
        if size % 2:
            raise values.refused(keys.head_dim, f"({size}) must be even")
        return size
    if width % heads or (width // heads) % 2:
        raise values.refused(
            keys.width, f"({width}) must be an even multiple of {keys.heads} ({heads})"
        )
    return width // heads


def _rotary(values: _Values, architecture: Architecture, head_dim: int) -> int | None:
    """The rotated dimensions, which two keys tell in two ways."""
    keys = architecture.keys
    if keys.rotary is None or keys.rotary_share is None:
        return None
    size = values.whole(keys.rotary, head_dim)
    if size % 2:
        raise values.refused(keys.rotary, f"({size}) must be even")
    share = values.positive(keys.rotary_share)
    if share * head_dim != size:
        raise values.refused(
            keys.rotary_share, f"({share}) of a head of {head_dim} is not {keys.rotary} ({size})"
        )
    return size


def _experts(values: _Values, architecture: Architecture, layers: int) -> Experts | None:
    keys = architecture.keys.experts
    if keys is None or architecture.router is None:
        return None
    count = values.whole(keys.count, MOST_EXPERTS // layers)
    inner = values.whole(keys.inner, LARGEST_SIZE)
    shared = 0 if keys.shared_count is None else values.whole(keys.shared_count, LARGEST_SIZE)
    groups = 1 if keys.groups is None else values.whole(keys.groups, count)
    kept = 1 if keys.kept_groups is None else values.whole(keys.kept_groups, groups)
    if keys.groups is not None and (count % groups or count // groups < 2):
        raise values.refused(
            keys.groups, f"({groups}) must divide {keys.count} ({count}) into groups of two or more"
        )
    return Experts(
        count=count,
        active=values.whole(keys.active, count // groups * kept),
        inner=inner,
        shared=shared * inner,
        dense_layers=0 if keys.dense_layers is None else values.whole(keys.dense_layers, layers, 0),
        router=architecture.router,
        groups=groups,
        kept_groups=kept,
        scale=1.0 if keys.scale is None else values.positive(keys.scale),
    )


def _check_per_layer(values: _Values, key: str, entry: object, layers: int) -> None:
    given = values.get(key)
    same = isinstance(given, list) and all(type(e) is type(entry) and e == entry for e in given)
    if not same or given != [entry] * layers:
        raise values.refused(key, f"must be a list of {layers} times {kind_of(entry)}")


def _rope_theta(values: _Values) -> float:
    """`rope_theta`, or its newer home `rope_parameters`, which must then say plain rotation."""
    if "rope_parameters" not in values.config:
        return values.positive("rope_theta")
    parameters = values.get("rope_parameters")
    if not isinstance(parameters, dict):
        raise values.refused("rope_parameters", f"must be an object, not {kind_of(parameters)}")
    unknown = set(parameters) - {"rope_type", "rope_theta"}
    if unknown or parameters.get("rope_type") != "default":
        raise values.refused(
            "rope_parameters", 'must hold "rope_theta" and "rope_type": "default" alone'
        )
    theta = _Values(parameters, f"{values.where}, rope_parameters").positive("rope_theta")
    if "rope_theta" in values.config and values.positive("rope_theta") != theta:
        raise values.refused("rope_theta", "differs from rope_parameters.rope_theta")
    return theta
