"""JSON schemas as automata over JSON texts, and by name what cannot be one.

The texts are written in one way: a space behind each colon and comma and nowhere else, properties in the
order in which the schema declares them, characters escaped only where they have to be.  Every value that a
schema accepts has such a text, within the bounds that stand below.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR
from functools import cache, cached_property, lru_cache
from itertools import zip_longest
from typing import Any

from archer.errors import BadRequest, cause_of, quoted
from archer.structure import algebra, pattern
from archer.structure.allows import Allowance
from archer.structure.byte_automaton import (
    MOST_CHARACTERS,
    ByteAutomaton,
    Empty,
    of_regex,
    too_large,
)
from archer.structure.keywords import (
    ANNOTATIONS,
    EITHER,
    FORMATS,
    ITEMS,
    LEAST,
    MOST,
    SUBJECTS,
    TYPES,
    bound,
    check_depth,
    check_kept,
    check_names,
    check_shapes,
    count_of,
    items_of,
    listed,
    same,
    type_allows,
    unsupported,
)
from archer.structure.numbers import NUMBER, beside, between, whole_between
from archer.structure.references import check_references, target

DEPTH = 3
"""How deep arrays and objects are nested where a schema leaves a value open."""
MOST_LENGTH = 1000
"""Characters of a string that are counted."""
MOST_MADE = 400_000
"""States of all parts of a schema."""
STRING = f'"{pattern.CHARACTER}*"'
Schema = Any
"""True, False, or a mapping."""


def automaton_of(schema: object, *, exact: bool = False) -> ByteAutomaton:
    """The JSON texts of a schema; refuses what cannot be kept, by name.

    As schemas are mostly meant, an object has the declared properties and no others unless the schema speaks
    of others, and a schema without a type has the one that its keywords speak of.  `exact` takes both to the
    letter: other properties may follow, and keywords say nothing about values of other types.
    """
    check_references(schema)
    writer = _Writer(schema, exact)
    made = writer.value(schema, 0)
    if made is None and writer.empty is not None:
        raise writer.empty
    return algebra.refuse_nothing(made, "schema")


def read_schema(schema: object) -> Schema:
    """A schema from what a user gives: a mapping, a JSON text or a Pydantic model."""
    described = getattr(schema, "model_json_schema", None)
    if described is not None:
        try:
            return described()
        except Exception as error:  # Pydantic and whoever adds to it raise nothing more precise
            name = getattr(schema, "__name__", type(schema).__name__)
            raise BadRequest(
                f"The model {quoted(name)} cannot be written as a schema: {cause_of(error)}."
            ) from error
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
    empty: Empty | None = None
    """Why the first part that no value fits has none."""

    @cached_property
    def _allowance(self) -> Allowance:
        return Allowance(self._resolved, lambda schema: self._of_type("string", schema, 0))

    def value(self, schema: Schema, depth: int) -> ByteAutomaton | None:
        """The texts of a schema's values; None where there are none."""
        made = self._value(schema, depth)
        self.states += 0 if made is None else made.states
        if self.states > MOST_MADE:
            raise too_large("states", self.states, MOST_MADE)
        return made

    def _value(self, schema: Schema, depth: int) -> ByteAutomaton | None:
        check_depth(depth)
        if schema is True or schema == {}:
            return anything(DEPTH)
        if schema is False:
            return None
        schema = self._resolved(schema, depth)
        if isinstance(schema, bool):
            return self._value(schema, depth)
        check_kept(schema)
        for name in EITHER:
            if name in schema:
                rest = {key: each for key, each in schema.items() if key != name}
                branches = [self._both(rest, each, depth) for each in listed(schema, name)]
                return algebra.either(self.value(each, depth + 1) for each in branches)
        if "const" in schema or "enum" in schema:
            return self._listed(schema, depth)
        return algebra.either(self._of_type(kind, schema, depth) for kind in self._types(schema))

    def _resolved(self, schema: Schema, depth: int) -> Schema:
        """A schema without $ref and allOf: what they say is part of it."""
        while isinstance(schema, Mapping) and ("$ref" in schema or "allOf" in schema):
            rest = {key: each for key, each in schema.items() if key not in ("$ref", "allOf")}
            parts = list(listed(schema, "allOf")) if "allOf" in schema else []
            if "$ref" in schema:
                parts.append(target(self.root, schema["$ref"]))
            for part in parts:
                rest = self._both(rest, part, depth)
            schema = rest
        if not isinstance(schema, bool):
            check_shapes(schema)
        return schema

    def _both(self, one: Schema, other: Schema, depth: int) -> Schema:
        """What two schemas say together; False where no value is both."""
        try:
            return self._together(one, other, depth)
        except Empty as error:
            self.empty = self.empty or error
            return False

    def _together(self, one: Schema, other: Schema, depth: int) -> Schema:
        check_depth(depth)
        if isinstance(other, Mapping) and ("$ref" in other or "allOf" in other):
            other = self._resolved(other, depth + 1)
        if one is False or other is False:
            return False
        if one is True or other is True:
            return one if other is True else other
        check_shapes(one)
        check_shapes(other)
        joined = dict(one)
        for name, part in other.items():
            joined[name] = part if name not in one else self._joined(name, one, other, depth)
        if any(name in one for name in ITEMS) and any(name in other for name in ITEMS):
            joined |= self._items(one, other, depth)
        for mine, theirs in ((one, other), (other, one)):
            if mine.get("additionalProperties", True) is not True and "properties" in theirs:
                rest = mine["additionalProperties"]
                own = mine.get("properties", {})
                for name, part in theirs["properties"].items():
                    if name not in own:
                        joined["properties"] = {
                            **joined["properties"],
                            name: self._both(part, rest, depth + 1),
                        }
        return joined

    def _items(self, one: Mapping[str, Any], other: Mapping[str, Any], depth: int) -> Schema:
        """What two schemas say together about the items of an array."""
        (first, rest), (second, behind) = items_of(one), items_of(other)
        pairs = zip_longest(
            [*first, *[rest] * (len(second) - len(first))],
            [*second, *[behind] * (len(first) - len(second))],
        )
        return {
            "prefixItems": [self._both(a, b, depth + 1) for a, b in pairs],
            "items": self._both(rest, behind, depth + 1),
        }

    def _joined(
        self, name: str, one: Mapping[str, Any], other: Mapping[str, Any], depth: int
    ) -> Any:
        """What two schemas say together under one keyword."""
        a, b = one[name], other[name]
        if same(a, b) or name in ANNOTATIONS:
            return a
        if name == "properties":
            shared = {key: self._both(a[key], b[key], depth + 1) for key in a if key in b}
            return {**a, **b, **shared}
        if name == "required":
            return [*a, *(key for key in b if key not in a)]
        if name == "type":
            kinds = [kind for kind in TYPES if type_allows(a, kind) and type_allows(b, kind)]
            return [kind for kind in kinds if not (kind == "integer" and "number" in kinds)]
        if name in LEAST and not isinstance(a, bool) and not isinstance(b, bool):
            return max(a, b)
        if name in MOST and not isinstance(a, bool) and not isinstance(b, bool):
            return min(a, b)
        if name == "additionalProperties":
            return self._both(a, b, depth + 1)
        if name in ITEMS:
            return a
        if name == "enum":
            shared_values = [each for each in a if any(same(each, also) for also in b)]
            if not shared_values:
                raise Empty("The schema allows no value: two lists of its enum share none.")
            return shared_values
        if name in ("$defs", "definitions"):
            return {**a, **b}
        if name in EITHER:
            return [
                self._both(x, y, depth + 1) for x in listed(one, name) for y in listed(other, name)
            ]
        kind = Empty if name == "const" else BadRequest
        raise kind(f"The schema says {name} twice of one value, which cannot be joined here.")

    def _types(self, schema: Mapping[str, Any]) -> Sequence[str]:
        kinds = schema.get("type")
        if kinds is not None:
            return kinds if isinstance(kinds, list) else [kinds]
        about = [kind for kind, words in SUBJECTS.items() if any(word in schema for word in words)]
        return about if about and not self.exact else [kind for kind in TYPES if kind != "integer"]

    def _of_type(self, kind: str, schema: Mapping[str, Any], depth: int) -> ByteAutomaton | None:
        """The texts of a schema's values of one type; None where there are none."""
        try:
            return self._made(kind, schema, depth)
        except Empty as error:
            self.empty = self.empty or error
            return None

    def _made(self, kind: str, schema: Mapping[str, Any], depth: int) -> ByteAutomaton | None:
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
        values = [schema["const"]] if "const" in schema else listed(schema, "enum")
        if "const" in schema and "enum" in schema:
            values = [each for each in values if any(same(each, also) for also in schema["enum"])]
        rest = {key: each for key, each in schema.items() if key not in ("const", "enum")}
        fits = [each for each in values if self._allowance.allows(rest, each, depth)]
        return algebra.one_of(_spelled(each).encode() for each in fits)

    def _string(self, schema: Mapping[str, Any]) -> ByteAutomaton | None:
        least, most = count_of(schema, "minLength"), count_of(schema, "maxLength", None)
        if most is not None and least > most:
            return None
        if max(least, most or 0) > MOST_LENGTH:
            raise BadRequest(
                f"The schema counts {max(least, most or 0)} characters of a string; at most {MOST_LENGTH} "
                "can be counted. Leave out the length, and check it afterwards."
            )
        counted = _counted(least, most)
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
        spelled: ByteAutomaton | None = None
        for each in FORMATS[schema["format"]]:
            fits = _leaf(f'"{each}"')
            spelled = fits if spelled is None else algebra.both(spelled, fits)
        assert spelled is not None
        free = "pattern" not in schema and not least and most is None
        return spelled if free else algebra.both(made, spelled)

    def _number(self, schema: Mapping[str, Any], *, whole: bool) -> str:
        multiple = schema.get("multipleOf")
        if multiple is not None and not (whole and multiple == 1):
            raise unsupported("multipleOf")
        low, above = bound(schema, "minimum", "exclusiveMinimum", max)
        high, below = bound(schema, "maximum", "exclusiveMaximum", min)
        if not whole:
            low = beside(low, math.inf) if above and low is not None else low
            high = beside(high, -math.inf) if below and high is not None else high
            return between(low, high)
        first = None if low is None else int(low.to_integral_value(ROUND_CEILING))
        last = None if high is None else int(high.to_integral_value(ROUND_FLOOR))
        first = None if first is None else first + (above and first == low)
        last = None if last is None else last - (below and last == high)
        return whole_between(first, last)

    def _array(self, schema: Mapping[str, Any], depth: int) -> ByteAutomaton | None:
        if schema.get("uniqueItems"):
            raise unsupported("uniqueItems")
        least, most = count_of(schema, "minItems"), count_of(schema, "maxItems", None)
        items, rest = items_of(schema)
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
        needed = list(dict.fromkeys(schema.get("required", ())))
        check_names(schema)
        others = schema.get("additionalProperties", self.exact or not declared)
        names = [*declared, *(name for name in needed if name not in declared)]
        more = anything(DEPTH - 1) if others is True else self.value(others, depth + 1)
        undeclared = more if "additionalProperties" in schema else anything(DEPTH - 1)
        parts = []
        for name in names:
            value = self.value(declared[name], depth + 1) if name in declared else undeclared
            if value is None and name in needed:
                return None
            if value is not None:
                key = algebra.literal(f"{_spelled(name)}: ".encode())
                parts.append((algebra.joined([key, value]), name in needed))
        least, most = count_of(schema, "minProperties"), count_of(schema, "maxProperties", None)
        if least > max(1, sum(must for _, must in parts)):
            raise unsupported("minProperties")
        if most is not None and (most < len(parts) or more is not None):
            raise unsupported("maxProperties")
        return _object(parts, more, names, empty=least == 0)


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
        known = algebra.one_of(_spelled(name).encode() for name in names)
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


def _spelled(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


@lru_cache(100)
def _counted(least: int, most: int | None) -> ByteAutomaton:
    """A string of `least` to `most` characters; fewer are kept than leaves, for they are large."""
    return of_regex(f'"{pattern.CHARACTER}{{{least},{"" if most is None else most}}}"')
