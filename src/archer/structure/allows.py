"""Whether a schema allows a value: asked of each of those that enum and const list beside other keywords."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from archer.structure.byte_automaton import ByteAutomaton
from archer.structure.keywords import (
    EITHER,
    SUBJECTS,
    bound,
    check_depth,
    check_kept,
    check_names,
    count_of,
    is_of,
    items_of,
    listed,
    same,
    unsupported,
)

Schema = Any
"""True, False, or a mapping."""


@dataclass(frozen=True)
class Allowance:
    """Keywords to the letter, each of the values that it speaks of."""

    resolved: Callable[[Schema, int], Schema]
    """A schema without $ref and allOf."""
    strings: Callable[[Mapping[str, Any]], ByteAutomaton | None]
    """The texts of the strings of a schema."""
    known: dict[str, ByteAutomaton | None] = field(default_factory=dict)
    """Of strings."""

    def allows(self, schema: Schema, value: Any, depth: int) -> bool:
        """Whether a value is one of a schema; refuses what cannot be told."""
        check_depth(depth)
        schema = self.resolved(schema, depth)
        if isinstance(schema, bool):
            return schema
        check_kept(schema)
        return self._is_one(schema, value, depth) and self._fits(schema, value, depth)

    def _is_one(self, schema: Mapping[str, Any], value: Any, depth: int) -> bool:
        """Whether a value is of a type, a listed one and of a branch, where there are such."""
        kinds = schema.get("type")
        if kinds is not None:
            names = kinds if isinstance(kinds, list) else [kinds]
            if not any(is_of(value, kind) for kind in names):
                return False
        if "const" in schema and not same(value, schema["const"]):
            return False
        if "enum" in schema and not any(same(value, each) for each in listed(schema, "enum")):
            return False
        return all(
            any(self.allows(each, value, depth + 1) for each in listed(schema, name))
            for name in EITHER
            if name in schema
        )

    def _fits(self, schema: Mapping[str, Any], value: Any, depth: int) -> bool:
        """Whether a value is what the keywords say of its type."""
        if isinstance(value, str):
            return self._string(schema, value)
        if isinstance(value, list):
            return self._array(schema, value, depth)
        if isinstance(value, Mapping):
            return self._members(schema, value, depth)
        return not is_of(value, "number") or _number(schema, value)

    def _string(self, schema: Mapping[str, Any], value: str) -> bool:
        words = {name: schema[name] for name in SUBJECTS["string"] if name in schema}
        if not words:
            return True
        key = json.dumps(words)
        if key not in self.known:
            self.known[key] = self.strings(words)
        made = self.known[key]
        return made is not None and made.accepts(json.dumps(value, ensure_ascii=False).encode())

    def _array(self, schema: Mapping[str, Any], value: list[Any], depth: int) -> bool:
        if schema.get("uniqueItems"):
            raise unsupported("uniqueItems")
        first, rest = items_of(schema)
        return _counted(schema, "minItems", "maxItems", len(value)) and all(
            self.allows(first[at] if at < len(first) else rest, each, depth + 1)
            for at, each in enumerate(value)
        )

    def _members(self, schema: Mapping[str, Any], value: Mapping[str, Any], depth: int) -> bool:
        check_names(schema)
        if not all(name in value for name in schema.get("required", ())):
            return False
        declared, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        return _counted(schema, "minProperties", "maxProperties", len(value)) and all(
            self.allows(declared.get(name, others), each, depth + 1) for name, each in value.items()
        )


def _number(schema: Mapping[str, Any], value: float) -> bool:
    multiple = schema.get("multipleOf")
    if multiple is not None:
        if multiple != 1:
            raise unsupported("multipleOf")
        if not is_of(value, "integer"):
            return False
    exact = Decimal(int(value)) if is_of(value, "integer") else Decimal(str(value))
    low, above = bound(schema, "minimum", "exclusiveMinimum", max)
    high, below = bound(schema, "maximum", "exclusiveMaximum", min)
    if low is not None and (exact < low or (above and exact == low)):
        return False
    return high is None or exact < high or (exact == high and not below)


def _counted(schema: Mapping[str, Any], least: str, most: str, count: int) -> bool:
    greatest = count_of(schema, most, None)
    return bool(count_of(schema, least) <= count and (greatest is None or count <= greatest))
