"""Building a method from its name and settings.

A method is spelled `decoder`, `decoder+policy` or `decoder+policy:value`, or has a name of its own in the
catalogue, which takes a value as well: `archer:11`.  A setting that a method does not use is refused, never
ignored; so is a pair that cannot work.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, fields
from typing import Any

import pydantic
from pydantic import ValidationError

from archer import compatibility
from archer.catalogue import ALIASES, COMMON, DECODERS, METHODS, POLICIES, PRESETS, Part, Shared
from archer.decoders.base import Decoder
from archer.decoders.wrappers import EndOfText, Guided
from archer.errors import BadRequest
from archer.policies.base import Policy

TRUE_OR_FALSE = "true or false"


@dataclass(frozen=True)
class Method:
    """A decoder and a policy with all their settings."""

    name: str
    decoder: Decoder[Any]
    policy: Policy
    length: int
    settings: Mapping[str, Any]
    """Every setting it takes, given and defaulted, as plain data: `build` makes the same of them."""


def build(name: str, settings: Mapping[str, Any], preset: str | None = None) -> Method:
    """Look `name` up and make its parts; refuses unknown names, unused settings and values out of range."""
    decoder_name, policy_name, given = _spelled(name)
    decoder, policy = DECODERS[decoder_name], POLICIES[policy_name]
    accepted = set().union(*(_settings_of(part) for part in (COMMON, decoder, policy)))
    chosen = _canonical(settings)
    for key in chosen:
        if key not in accepted:
            raise BadRequest(
                f"The method {name!r} does not use the setting {key!r}. "
                f"It takes: {', '.join(sorted(accepted))}."
            )
    for key in given:
        if key in chosen:
            raise BadRequest(
                f"{key!r} is given twice, in the method's name {name!r} and as a setting."
            )
    wanted = {k: v for k, v in _preset(preset).items() if k in accepted} | chosen | given
    parts = [_make(part, wanted) for part in (COMMON, decoder, policy)]
    shared, rule, cache = parts
    rule.check(shared.length)
    compatibility.check(rule, cache, (decoder_name, policy_name), shared.length)
    complete = {k: v for part in parts for k, v in asdict(part).items() if k in accepted}
    return Method(name, _wrapped(rule, shared), cache, shared.length, complete)


def _wrapped(decoder: Decoder[Any], shared: Shared) -> Decoder[Any]:
    if shared.eos != "none":
        decoder = EndOfText(decoder, shared.eos)
    return Guided(decoder, shared.guidance) if shared.guidance > 0 else decoder


def _spelled(name: str) -> tuple[str, str, dict[str, Any]]:
    """Decoder name, policy name, and settings given as `part:value`."""
    named, colon, value = name.partition(":")
    by_name = named in METHODS and "+" not in name
    parts = METHODS[named][0].split("+") if by_name else name.split("+")
    if by_name and colon:
        parts[0 if POLICIES[parts[1]].main is None else 1] += colon + value
    if len(parts) == 1:
        parts.append("eager")
    if len(parts) > 2:
        raise BadRequest(f"{name!r} has more than a decoder and a cache: write decoder+cache.")
    given: dict[str, Any] = {}
    names = []
    for part, table, what in zip(
        parts, (DECODERS, POLICIES), ("decoder", "cache policy"), strict=True
    ):
        bare, colon, value = part.partition(":")
        if bare not in table:
            raise BadRequest(_unknown(name, bare, table, what))
        names.append(bare)
        if colon:
            main = table[bare].main
            if main is None or not value:
                raise BadRequest(f"{part!r} means nothing: {bare!r} takes {_main(table[bare])}.")
            given[main] = value
    return names[0], names[1], given


def _main(part: Part) -> str:
    return "no value" if part.main is None else f"its {part.main} behind the colon"


def _unknown(name: str, part: str, table: Mapping[str, Part], what: str) -> str:
    close = difflib.get_close_matches(name, (*METHODS, *DECODERS), n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return (
        f"There is no method {name!r}: {part!r} is no {what}.{hint} "
        f"Methods: {', '.join(METHODS)}; or decoder+policy with decoders {', '.join(DECODERS)} "
        f"and policies {', '.join(POLICIES)}."
    )


def _canonical(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Translate aliases and drop what was left unset."""
    chosen: dict[str, Any] = {}
    for key, value in settings.items():
        target = ALIASES.get(key, key)
        if value is None:
            continue
        if target in chosen:
            alias = next(name for name, meant in ALIASES.items() if meant == target)
            raise BadRequest(f"{alias!r} and {target!r} are the same setting; give one of them.")
        chosen[target] = value
    return chosen


def _preset(name: str | None) -> Mapping[str, Any]:
    if name is None:
        return {}
    if name not in PRESETS:
        raise BadRequest(f"There is no preset {name!r}. Presets: {', '.join(PRESETS)}.")
    return PRESETS[name]


def _settings_of(part: Part) -> set[str]:
    declared: tuple[Field[Any], ...] = fields(part.make)
    return {item.name for item in declared} - set(part.fixed)


def _make(part: Part, wanted: Mapping[str, Any]) -> Any:
    own = _settings_of(part)
    for name, value in wanted.items():
        if name in own and isinstance(value, bool) and allowed(part, name) != TRUE_OR_FALSE:
            raise BadRequest(f"{name} must be {allowed(part, name)}, not {value}.")
    try:
        return part.make(**{k: v for k, v in wanted.items() if k in own}, **part.fixed)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0])
        raise BadRequest(
            f"{name} must be {allowed(part, name)}, not {first['input']!r}."
        ) from error


def allowed(part: Part, name: str) -> str:
    """What a setting may be, in words, from its declaration."""
    schema = pydantic.TypeAdapter(part.make).json_schema()["properties"][name]
    kinds = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    return " or ".join(_in_words(kind) for kind in kinds)


def _in_words(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(schema["enum"])
    words = {"integer": "a whole number", "number": "a number", "boolean": TRUE_OR_FALSE}
    bounds = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    limits = [f"{word} {schema[key]:g}" for key, word in bounds.items() if key in schema]
    kind = schema.get("description") or words.get(
        schema.get("type", ""), "a list of lists of numbers"
    )
    return ", ".join([kind, *limits])
