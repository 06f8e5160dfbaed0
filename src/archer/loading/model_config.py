"""config.json -> architecture, shape and token ids, with nothing guessed.

Every number the network needs is read by name and checked for type and range. A missing key is
refused; the defaults that other libraries would fill in are those of a different model.
"""

from dataclasses import dataclass
from typing import TypeGuard

from archer.engine.network import Shape
from archer.errors import BadModel
from archer.loading.architectures import ARCHITECTURES, Architecture
from archer.loading.model_files import Json, kind_of

LARGEST_LAYERS = 1 << 10
LARGEST_SIZE = 1 << 24
LARGEST_REAL = 1e15
"""No published model comes near these; a config beyond them is a mistake or a trap."""


@dataclass(frozen=True)
class ModelConfig:
    """What config.json says, checked."""

    architecture: Architecture
    shape: Shape
    mask: int
    eos: tuple[int, ...]


def parse_config(config: Json, where: str) -> ModelConfig:
    """Check the whole config; `where` names its file in the refusals."""
    values = _Values(config, where)
    architecture = _architecture(values)
    _check_type(values)
    _check_settings(values, architecture)
    shape = _shape(values, architecture)
    mask = values.token("mask_token_id", shape.vocabulary)
    eos = values.tokens("eos_token_id", shape.vocabulary)
    if mask in eos:
        raise values.refused("mask_token_id", f"is {mask}, which eos_token_id names too")
    return ModelConfig(architecture, shape, mask, eos)


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
                "take config.json from the model's original repository."
            )
        return self.config[key]

    def whole(self, key: str, largest: int) -> int:
        value = self.get(key)
        if type(value) is not int or not 1 <= value <= largest:
            expected = f"must be a whole number from 1 to {largest}"
            raise self.refused(key, f"{expected}, not {kind_of(value)}")
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


def _architecture(values: _Values) -> Architecture:
    names = values.get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise values.refused("architectures", f"must be a list of names, not {kind_of(names)}")
    if names[0] not in ARCHITECTURES:
        supported = ", ".join(ARCHITECTURES)
        raise BadModel(
            f"{values.where}: the architecture {kind_of(names[0])} is not supported; "
            f"supported are {supported}."
        )
    return ARCHITECTURES[names[0]]


def _check_settings(values: _Values, architecture: Architecture) -> None:
    given = {key: v for key, v in architecture.if_given.items() if key in values.config}
    for key, expected in {**architecture.fixed, **given}.items():
        value = values.get(key)
        if type(value) is not type(expected) or value != expected:
            what = f"is {kind_of(value)}; only {kind_of(expected)} is supported"
            raise values.refused(key, f"{what} for {architecture.name}")
    for first, second in architecture.equal:
        if values.get(first) != values.get(second):
            raise values.refused(first, f"differs from {kind_of(second)}; they must be equal")


def _check_type(values: _Values) -> None:
    """`model_type` does not choose the family, but an unknown one is another kind of model."""
    if "model_type" in values.config:
        kind = values.config["model_type"]
        known = [row.model_type for row in ARCHITECTURES.values()]
        if kind not in known:
            raise values.refused(
                "model_type",
                f"is {kind_of(kind)}, which is not supported; supported are "
                f"{', '.join(dict.fromkeys(known))}",
            )


def _shape(values: _Values, architecture: Architecture) -> Shape:
    keys = architecture.keys
    width = values.whole(keys.width, LARGEST_SIZE)
    heads = values.whole(keys.heads, LARGEST_SIZE)
    kv_heads = values.whole(keys.kv_heads, LARGEST_SIZE)
    if width % heads or (width // heads) % 2:
        raise values.refused(
            keys.width, f"({width}) must be an even multiple of {keys.heads} ({heads})"
        )
    if heads % kv_heads:
        raise values.refused(keys.kv_heads, f"({kv_heads}) must divide {keys.heads} ({heads})")
    return Shape(
        layers=values.whole(keys.layers, LARGEST_LAYERS),
        width=width,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=width // heads,
        inner=values.whole(keys.inner, LARGEST_SIZE),
        vocabulary=values.whole(keys.vocabulary, LARGEST_SIZE),
        norm_epsilon=values.positive(keys.norm_epsilon),
        rope_theta=_rope_theta(values),
        qkv_bias=architecture.qkv_bias,
        rope_float32=architecture.rope_float32,
        max_positions=values.whole(keys.max_positions, LARGEST_SIZE),
    )


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
