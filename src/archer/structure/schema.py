"""JSON schemas as automata over JSON texts, and by name what cannot be one.

The texts are written in one way: a space behind each colon and comma and nowhere else, properties in the
order in which the schema declares them, characters escaped only where they have to be.  Every value that a
schema accepts has such a text, within the bounds that stand below.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any

from archer.errors import BadRequest, quoted
from archer.structure import algebra, pattern
from archer.structure.byte_automaton import MOST_CHARACTERS, ByteAutomaton, of_regex, too_large
from archer.structure.numbers import MOST_DIGITS, NUMBER, between, whole_between

DEPTH = 3
"""How deep arrays and objects are nested where a schema leaves a value open."""
MOST_NESTED = 60
"""Schemas inside schemas."""
MOST_LENGTH = 2000
"""Characters of a string that are counted."""
MOST_MADE = 400_000
"""States of all parts of a schema."""
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
SUBJECTS: Mapping[str, tuple[str, ...]] = {
    "string": ("pattern", "format", "minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems"),
    "object": (
        *("properties", "required", "additionalProperties", "minProperties", "maxProperties"),
        *("patternProperties", "propertyNames"),
    ),
}
"""Which type each keyword speaks of."""
REFUSED = (
    *(
        "not",
        "if",
        "then",
        "else",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "contains",
    ),
    *(
        "minContains",
        "maxContains",
        "unevaluatedProperties",
        "unevaluatedItems",
        "$dynamicRef",
        "$recursiveRef",
    ),
)
"""What would have to be kept and cannot be."""
EITHER = ("anyOf", "oneOf")
"""At least one of their branches fits; for oneOf that is less than it says."""
HOUR = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
TIME = rf"{HOUR}:(?:[0-5][0-9]|60)(?:\.[0-9]+)?(?:[zZ]|[+-]{HOUR})"
LEAP = r"(?:[0-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
DATE = (
    r"(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    rf"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{LEAP}-02-29)"
)
LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
FORMATS = {
    "date": DATE,
    "time": TIME,
    "date-time": f"{DATE}[tT]{TIME}",
    "email": rf"[a-zA-Z0-9!#$%&'*+/=?^_`{{|}}~.-]{{1,64}}@(?:{LABEL})(?:\.{LABEL})*",
    "hostname": rf"{LABEL}(?:\.{LABEL})*",
    "ipv4": rf"{BYTE}(?:\.{BYTE}){{3}}",
    "uuid": "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    "uri": r"[a-zA-Z][a-zA-Z0-9+.-]*:[a-zA-Z0-9._~:/?#\[\]@!$&'()*+,;=%-]*",
}
STRING = f'"{pattern.CHARACTER}*"'
Schema = Any
"""True, False, or a mapping."""


def automaton_of(schema: object, *, exact: bool = False) -> ByteAutomaton:
    """The JSON texts of a schema; refuses what cannot be kept, by name.

    As schemas are mostly meant, an object has the declared properties and no others unless the schema speaks
    of others, and a schema without a type has the one that its keywords speak of.  `exact` takes both to the
    letter: other properties may follow, and keywords say nothing about values of other types.
    """
    return algebra.refuse_nothing(_Writer(schema, exact).value(schema, 0), "schema")


def read_schema(schema: object) -> Schema:
    """A schema from what a user gives: a mapping, a JSON text or a Pydantic model."""
    described = getattr(schema, "model_json_schema", None)
    if described is not None:
        return described()
    if isinstance(schema, str):
        if len(schema) > MOST_CHARACTERS:
            raise BadRequest(
                f"A schema of {len(schema)} characters is too long: at most {MOST_CHARACTERS}."
            )
        try:
            return json.loads(schema)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"The schema is no JSON: {error}.") from error
    if not isinstance(schema, Mapping | bool):
        raise BadRequest(
            f"A schema is a mapping, a JSON text or a Pydantic model, not {type(schema).__name__}."
        )
    return schema


@dataclass
class _Writer:
    root: Schema
    exact: bool
    states: int = 0
    """Made so far."""

    def value(self, schema: Schema, depth: int) -> ByteAutomaton | None:
        """The texts of a schema's values; None where there are none."""
        made = self._value(schema, depth)
        self.states += 0 if made is None else made.states
        if self.states > MOST_MADE:
            raise too_large("states", self.states, MOST_MADE)
        return made

    def _value(self, schema: Schema, depth: int) -> ByteAutomaton | None:
        if depth > MOST_NESTED:
            raise BadRequest(f"The schema is nested more than {MOST_NESTED} deep, or without end.")
        if schema is True or schema == {}:
            return anything(DEPTH)
        if schema is False:
            return None
        schema = self._resolved(schema, depth)
        if isinstance(schema, bool):
            return self._value(schema, depth)
        for name in REFUSED:
            if name in schema:
                raise _unsupported(name)
        for name in EITHER:
            if name in schema:
                rest = {key: each for key, each in schema.items() if key != name}
                branches = [self._both(rest, each, depth) for each in _list(schema, name)]
                return algebra.either(self.value(each, depth + 1) for each in branches)
        if "const" in schema or "enum" in schema:
            return self._listed(schema, depth)
        return algebra.either(self._of_type(kind, schema, depth) for kind in self._types(schema))

    def _resolved(self, schema: Schema, depth: int) -> Schema:
        """A schema without $ref and allOf: what they say is part of it."""
        while isinstance(schema, Mapping) and ("$ref" in schema or "allOf" in schema):
            rest = {key: each for key, each in schema.items() if key not in ("$ref", "allOf")}
            parts = list(_list(schema, "allOf")) if "allOf" in schema else []
            if "$ref" in schema:
                parts.append(self._target(schema["$ref"]))
            for part in parts:
                rest = self._both(rest, part, depth)
            schema = rest
        if not isinstance(schema, Mapping | bool):
            raise BadRequest(f"A schema is a mapping, true or false, not {quoted(schema)}.")
        return schema

    def _target(self, name: object) -> Schema:
        if not isinstance(name, str) or not name.startswith("#"):
            raise BadRequest(f"The reference {quoted(name)} leads outside of the schema.")
        here = self.root
        for step in filter(None, name[1:].split("/")):
            key = step.replace("~1", "/").replace("~0", "~").replace("%25", "%")
            if isinstance(here, list) and key.isdecimal() and int(key) < len(here):
                here = here[int(key)]
            elif isinstance(here, Mapping) and key in here:
                here = here[key]
            else:
                raise BadRequest(f"The reference {quoted(name)} leads to nothing.")
        return here

    def _both(self, one: Schema, other: Schema, depth: int) -> Schema:
        """What two schemas say together."""
        if depth > MOST_NESTED:
            raise BadRequest(f"The schema is nested more than {MOST_NESTED} deep, or without end.")
        if isinstance(other, Mapping) and ("$ref" in other or "allOf" in other):
            other = self._resolved(other, depth + 1)
        if one is False or other is False:
            return False
        if one is True or other is True:
            return one if other is True else other
        if not isinstance(other, Mapping):
            raise BadRequest(f"A schema is a mapping, true or false, not {quoted(other)}.")
        joined = dict(one)
        for name, said in other.items():
            joined[name] = said if name not in one else self._joined(name, one, other, depth)
        for mine, theirs in ((one, other), (other, one)):
            if mine.get("additionalProperties", True) is not True and "properties" in theirs:
                rest = mine["additionalProperties"]
                own = mine.get("properties", {})
                for name, said in theirs["properties"].items():
                    if name not in own:
                        joined["properties"] = {
                            **joined["properties"],
                            name: self._both(said, rest, depth + 1),
                        }
        return joined

    def _joined(
        self, name: str, one: Mapping[str, Any], other: Mapping[str, Any], depth: int
    ) -> Any:
        """What two schemas say together under one keyword."""
        a, b = one[name], other[name]
        if a == b or name in (
            "title",
            "description",
            "default",
            "examples",
            "$schema",
            "$id",
            "id",
        ):
            return a
        if name == "properties":
            shared = {key: self._both(a[key], b[key], depth + 1) for key in a if key in b}
            return {**a, **b, **shared}
        if name == "required":
            return [*a, *(key for key in b if key not in a)]
        if name == "type":
            kinds = [kind for kind in TYPES if _has(a, kind) and _has(b, kind)]
            return [kind for kind in kinds if not (kind == "integer" and "number" in kinds)]
        if name in ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"):
            return max(a, b)
        if name in ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"):
            return min(a, b)
        if name in ("items", "additionalProperties"):
            return self._both(a, b, depth + 1)
        if name == "enum":
            return [each for each in a if any(_same(each, also) for also in b)]
        if name in ("$defs", "definitions"):
            return {**a, **b}
        if name in EITHER:
            return [
                self._both(x, y, depth + 1) for x in _list(one, name) for y in _list(other, name)
            ]
        raise BadRequest(f"The schema says {name} twice of one value, which cannot be joined here.")

    def _types(self, schema: Mapping[str, Any]) -> Sequence[str]:
        said = schema.get("type")
        if said is not None:
            kinds = [said] if isinstance(said, str) else said
            if not isinstance(kinds, list) or not set(map(str, kinds)) <= set(TYPES):
                raise BadRequest(f"{quoted(said)} is no type of JSON. Types: {', '.join(TYPES)}.")
            return kinds
        about = [kind for kind, words in SUBJECTS.items() if any(word in schema for word in words)]
        return about if about and not self.exact else [kind for kind in TYPES if kind != "integer"]

    def _of_type(self, kind: str, schema: Mapping[str, Any], depth: int) -> ByteAutomaton | None:
        if kind in ("null", "boolean"):
            return _leaf("null" if kind == "null" else "true|false")
        if kind == "string":
            return self._string(schema)
        if kind == "array":
            return self._array(schema, depth)
        if kind == "object":
            return self._members(schema, depth)
        return _leaf(self._number(schema, whole=kind == "integer"))

    def _listed(self, schema: Mapping[str, Any], depth: int) -> ByteAutomaton | None:
        """One of some values, as far as the other keywords allow them."""
        values = [schema["const"]] if "const" in schema else _list(schema, "enum")
        if "const" in schema and "enum" in schema:
            values = [each for each in values if any(_same(each, also) for also in schema["enum"])]
        rest = {key: each for key, each in schema.items() if key not in ("const", "enum")}
        spelled = dict.fromkeys(json.dumps(each, ensure_ascii=False) for each in values)
        made = algebra.either(algebra.literal(each.encode()) for each in spelled)
        if made is None or not any(name in rest for name in ("type", *_WORDS)):
            return made
        if not any(name in rest for name in _WORDS):
            kinds = rest["type"] if isinstance(rest["type"], list) else [rest["type"]]
            fits = [each for each in spelled if any(_is(json.loads(each), kind) for kind in kinds)]
            return algebra.either(algebra.literal(each.encode()) for each in fits)
        others = _Writer(self.root, exact=True).value(rest, depth + 1)
        return None if others is None else algebra.both(made, others)

    def _string(self, schema: Mapping[str, Any]) -> ByteAutomaton | None:
        least, most = _count(schema, "minLength"), _count(schema, "maxLength", None)
        if most is not None and least > most:
            return None
        if max(least, most or 0) > MOST_LENGTH:
            raise BadRequest(
                f"The schema counts {max(least, most or 0)} characters of a string; at most {MOST_LENGTH} "
                "can be counted. Leave out the length, and check it afterwards."
            )
        counted = _leaf(f'"{pattern.CHARACTER}{_times(least, most)}"')
        made: ByteAutomaton | None = counted
        if "pattern" in schema:
            fits = _leaf(f'"{pattern.inside(str(schema["pattern"]))}"')
            made = fits if not least and most is None else algebra.both(counted, fits)
        if "format" not in schema or made is None:
            return made
        if schema["format"] not in FORMATS:
            raise BadRequest(
                f"The format {quoted(schema['format'])} is not supported. Formats: {', '.join(FORMATS)}."
            )
        spelled = _leaf(f'"{FORMATS[schema["format"]]}"')
        free = "pattern" not in schema and not least and most is None
        return spelled if free else algebra.both(made, spelled)

    def _number(self, schema: Mapping[str, Any], *, whole: bool) -> str:
        multiple = schema.get("multipleOf")
        if multiple is not None and not (whole and multiple == 1):
            raise _unsupported("multipleOf")
        low, above = _bound(schema, "minimum", "exclusiveMinimum", max)
        high, below = _bound(schema, "maximum", "exclusiveMaximum", min)
        if not whole:
            return between(low, high, above=above, below=below)
        first = None if low is None else -int(-low // 1) + (above and low == int(low))
        last = None if high is None else int(high // 1) - (below and high == int(high))
        return whole_between(first, last)

    def _array(self, schema: Mapping[str, Any], depth: int) -> ByteAutomaton | None:
        if schema.get("uniqueItems"):
            raise _unsupported("uniqueItems")
        least, most = _count(schema, "minItems"), _count(schema, "maxItems", None)
        items, rest = schema.get("prefixItems", []), schema.get("items", True)
        if isinstance(rest, list):
            items, rest = rest, schema.get("additionalItems", True)
        first = []
        for each in items:
            made = self.value(each, depth + 1)
            if made is None:
                rest = False
                break
            first.append(made)
        more = None
        if most is None or most > len(first):
            more = anything(DEPTH - 1) if rest is True else self.value(rest, depth + 1)
        return _between(b"[", algebra.listing(first, more, least, most), b"]")

    def _members(self, schema: Mapping[str, Any], depth: int) -> ByteAutomaton | None:
        """An object."""
        declared = schema.get("properties", {})
        needed = schema.get("required", [])
        if not isinstance(declared, Mapping) or not isinstance(needed, list):
            raise BadRequest(
                "properties of a schema are a mapping, and required is a list of names."
            )
        for name in ("patternProperties", "propertyNames"):
            if schema.get(name):
                raise _unsupported(name)
        others = schema.get("additionalProperties", self.exact or not declared)
        names = [*declared, *(name for name in needed if name not in declared)]
        more = anything(DEPTH - 1) if others is True else self.value(others, depth + 1)
        parts = []
        for name in names:
            value = self.value(declared[name], depth + 1) if name in declared else more
            if value is None and name in needed:
                return None
            if value is not None:
                key = algebra.literal(f"{_spelled(name)}: ".encode())
                parts.append((algebra.joined([key, value]), name in needed))
        least, most = _count(schema, "minProperties"), _count(schema, "maxProperties", None)
        if least > max(1, sum(must for _, must in parts)):
            raise _unsupported("minProperties")
        if most is not None and (most < len(parts) or more is not None):
            raise _unsupported("maxProperties")
        return _object(parts, more, names, empty=least == 0)


_WORDS = tuple(word for words in SUBJECTS.values() for word in words)


def _object(
    parts: Sequence[tuple[ByteAutomaton, bool]],
    more: ByteAutomaton | None,
    names: Sequence[str] = (),
    *,
    empty: bool = True,
) -> ByteAutomaton | None:
    """An object of members, and of others under any names but some."""
    extra = None
    if more is not None:
        known = algebra.either(algebra.literal(_spelled(name).encode()) for name in names)
        key = _leaf(STRING) if known is None else algebra.without(_leaf(STRING), known)
        assert key is not None
        extra = algebra.joined([key, algebra.literal(b": "), more])
    return _between(b"{", algebra.members(parts, extra, empty=empty), b"}")


@cache
def anything(depth: int) -> ByteAutomaton:
    """Any value, with arrays and objects nested up to a depth."""
    plain = _leaf(f"null|true|false|{NUMBER}|{STRING}")
    if depth == 0:
        return plain
    inner = anything(depth - 1)
    array = _between(b"[", algebra.listing((), inner, 0, None), b"]")
    made = algebra.either((plain, array, _object((), inner)))
    assert made is not None
    return made


@lru_cache(1000)
def _leaf(regex: str) -> ByteAutomaton:
    return of_regex(regex)


def _between(before: bytes, inside: ByteAutomaton | None, behind: bytes) -> ByteAutomaton | None:
    if inside is None:
        return None
    return algebra.joined([algebra.literal(before), inside, algebra.literal(behind)])


def _spelled(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _times(least: int, most: int | None) -> str:
    return f"{{{least},{'' if most is None else most}}}"


def _list(schema: Mapping[str, Any], name: str) -> Sequence[Any]:
    said = schema[name]
    if not isinstance(said, list) or not said:
        raise BadRequest(f"{name} of a schema is a list that is not empty, not {quoted(said)}.")
    return said


def _count(schema: Mapping[str, Any], name: str, usual: Any = 0) -> Any:
    said = schema.get(name, usual)
    if said is usual:
        return usual
    if isinstance(said, bool) or not isinstance(said, int | float) or said != int(said) or said < 0:
        raise BadRequest(f"{name} of a schema is a whole number of at least 0, not {quoted(said)}.")
    return int(said)


def _bound(
    schema: Mapping[str, Any], name: str, strict: str, tighter: Any
) -> tuple[Decimal | None, bool]:
    """A bound of numbers, and whether it is left out itself; true next to a bound is draft 4's way."""
    found: list[tuple[Decimal, bool]] = []
    exclusive = schema.get(strict)
    if name in schema:
        found.append((_decimal(schema[name], name), exclusive is True))
    if exclusive is not None and not isinstance(exclusive, bool):
        found.append((_decimal(exclusive, strict), True))
    if not found:
        return None, False
    best = tighter(number for number, _ in found)
    return best, any(left_out for number, left_out in found if number == best)


def _decimal(number: Any, name: str) -> Decimal:
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise BadRequest(f"{name} of a schema is a number, not {quoted(number)}.")
    exact = Decimal(str(number))
    if not exact.is_finite() or len(f"{exact:f}") > MOST_DIGITS:
        raise BadRequest(
            f"{name} of a schema has at most {MOST_DIGITS} digits, not {quoted(number)}."
        )
    return exact


def _has(kinds: Any, kind: str) -> bool:
    said = [kinds] if isinstance(kinds, str) else kinds
    return kind in said or (kind == "integer" and "number" in said)


def _is(value: Any, kind: str) -> bool:
    """Whether a value is of a type."""
    if value is None or isinstance(value, bool):
        return kind == ("null" if value is None else "boolean")
    if isinstance(value, int | float):
        return kind == "number" or (kind == "integer" and value == int(value))
    return kind == (
        "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
    )


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _unsupported(name: str) -> BadRequest:
    return BadRequest(
        f"The schema says {name}, which cannot be kept while a text is written in any order. Leave it out, "
        "and check it afterwards."
    )
