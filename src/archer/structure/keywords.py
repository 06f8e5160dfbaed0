"""The keywords of JSON schemas: what each speaks of, and what they say, read and checked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from archer.errors import BadRequest, quoted
from archer.structure.numbers import MOST_DIGITS

MOST_NESTED = 60
"""Schemas inside schemas."""
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
NOT_ENFORCED = ("oneOf",)
"""Accepted for less than they say: of the branches of oneOf at least one fits, not exactly one."""
ANNOTATIONS = (
    *("title", "description", "default", "examples", "$schema", "$id", "id"),
    *("$comment", "$anchor", "readOnly", "writeOnly", "deprecated"),
)
"""What says nothing about values: where it is said twice, the first is taken."""
ITEMS = ("prefixItems", "items", "additionalItems")
LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
HOUR = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
TIME = rf"{HOUR}:[0-5][0-9](?:\.[0-9]+)?(?:[zZ]|[+-]{HOUR})"
YEAR = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
LEAP = r"(?:[0-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
DATE = (
    rf"(?:{YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    rf"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{LEAP}-02-29)"
)
LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
HOSTNAME = rf"{LABEL}(?:\.{LABEL})*"
BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
ATOM = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"
PERCENT = "%[0-9a-fA-F]{2}"
NAMED = rf"(?:[a-zA-Z0-9._~!$&'()*+,;=-]|{PERCENT})"
IN_PATH = rf"(?:[a-zA-Z0-9._~!$&'()*+,;=:@-]|{PERCENT})"
SERVER = rf"(?:(?:{NAMED}|:)*@)?{NAMED}*(?::[0-9]*)?"
PATH = rf"(?://{SERVER}(?:/{IN_PATH}*)*|/?(?:{IN_PATH}+(?:/{IN_PATH}*)*)?)"
BEHIND_PATH = rf"(?:{IN_PATH}|[/?])*"
FORMATS: Mapping[str, tuple[str, ...]] = {
    "date": (DATE,),
    "time": (TIME,),
    "date-time": (f"{DATE}[tT]{TIME}",),
    "email": (rf"{ATOM}(?:\.{ATOM})*@{HOSTNAME}", '[^"@]{1,64}@[^"]*'),
    "hostname": (HOSTNAME,),
    "ipv4": (rf"{BYTE}(?:\.{BYTE}){{3}}",),
    "uuid": ("[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",),
    "uri": (rf"[a-zA-Z][a-zA-Z0-9+.-]*:{PATH}(?:\?{BEHIND_PATH})?(?:#{BEHIND_PATH})?",),
}
"""The expressions that all have to match; of hosts in brackets a uri has none."""

_MAPPING, _LIST, _NUMBER = (Mapping, "a mapping"), (list, "a list"), (int | float, "a number")
SHAPES: Mapping[str, tuple[Any, str]] = {
    **dict.fromkeys(("properties", "$defs", "definitions"), _MAPPING),
    **dict.fromkeys(("required", "enum", "allOf", "anyOf", "oneOf", "prefixItems"), _LIST),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _NUMBER),
    **dict.fromkeys(("minProperties", "maxProperties"), _NUMBER),
    **dict.fromkeys(("pattern", "format"), (str, "a text")),
}
"""What each keyword is followed by; of others whoever reads them says so."""


def check_shapes(schema: Any) -> None:
    """Refuse what is no schema, and keywords with something behind them that says nothing."""
    if not isinstance(schema, Mapping):
        raise BadRequest(f"A schema is a mapping, true or false, not {quoted(schema)}.")
    for name, value in schema.items():
        kind, words = SHAPES.get(name, (object, ""))
        if not isinstance(value, kind):
            raise BadRequest(f"{name} of a schema is {words}, not {quoted(value)}.")
    kinds = schema.get("type", [])
    if not all(each in TYPES for each in (kinds if isinstance(kinds, list) else [kinds])):
        raise BadRequest(f"{quoted(kinds)} is no type of JSON. Types: {', '.join(TYPES)}.")
    if not all(isinstance(each, str) for each in schema.get("required", ())):
        raise BadRequest("required of a schema is a list of names.")


def check_depth(depth: int) -> None:
    """Refuse schemas inside schemas without end."""
    if depth > MOST_NESTED:
        raise BadRequest(f"The schema is nested more than {MOST_NESTED} deep, or without end.")


def check_kept(schema: Mapping[str, Any]) -> None:
    """Refuse keywords that would have to be kept of any value and cannot be."""
    for name in REFUSED:
        if name in schema:
            raise unsupported(name)


def check_names(schema: Mapping[str, Any]) -> None:
    """The same of what is said about the names of an object; true and {} say nothing."""
    for name in ("patternProperties", "propertyNames"):
        if schema.get(name, True) not in (True, {}):
            raise unsupported(name)


def listed(schema: Mapping[str, Any], name: str) -> Sequence[Any]:
    value = schema[name]
    if not isinstance(value, list) or not value:
        raise BadRequest(f"{name} of a schema is a list that is not empty, not {quoted(value)}.")
    return value


def items_of(schema: Mapping[str, Any]) -> tuple[Sequence[Any], Any]:
    """What the first items of an array have to be, and what all others have to."""
    first, rest = schema.get("prefixItems", []), schema.get("items", True)
    return (rest, schema.get("additionalItems", True)) if isinstance(rest, list) else (first, rest)


def count_of(schema: Mapping[str, Any], name: str, usual: Any = 0) -> Any:
    size = schema.get(name, usual)
    if size is usual:
        return usual
    if isinstance(size, bool) or not isinstance(size, int | float) or size != int(size) or size < 0:
        raise BadRequest(f"{name} of a schema is a whole number of at least 0, not {quoted(size)}.")
    return int(size)


def bound(
    schema: Mapping[str, Any], name: str, strict: str, tighter: Any
) -> tuple[Decimal | None, bool]:
    """A bound of numbers, and whether it is left out itself; true next to a bound is draft 4's way."""
    bounds: list[tuple[Decimal, bool]] = []
    exclusive = schema.get(strict)
    if name in schema:
        bounds.append((_decimal(schema[name], name), exclusive is True))
    if exclusive is not None and not isinstance(exclusive, bool):
        bounds.append((_decimal(exclusive, strict), True))
    if not bounds:
        return None, False
    best = tighter(number for number, _ in bounds)
    return best, any(left_out for number, left_out in bounds if number == best)


def _decimal(number: Any, name: str) -> Decimal:
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise BadRequest(f"{name} of a schema is a number, not {quoted(number)}.")
    exact = Decimal(str(int(number) if number % 1 == 0 else number))
    if not exact.is_finite() or len(f"{exact:f}") > MOST_DIGITS:
        raise BadRequest(
            f"{name} of a schema has at most {MOST_DIGITS} digits, not {quoted(number)}."
        )
    return exact


def type_allows(kinds: Any, kind: str) -> bool:
    names = [kinds] if isinstance(kinds, str) else kinds
    return kind in names or (kind == "integer" and "number" in names)


def is_of(value: Any, kind: str) -> bool:
    """Whether a value is of a type."""
    if value is None or isinstance(value, bool):
        return kind == ("null" if value is None else "boolean")
    if isinstance(value, int | float):
        return kind == "number" or (kind == "integer" and value == int(value))
    return kind == (
        "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
    )


def same(one: Any, other: Any) -> bool:
    """Whether two values are one value of JSON: 1 and 1.0 are, True and 1 are not."""
    return bool(one == other) and _plain(one) == _plain(other)


def _plain(value: Any) -> str:
    read = json.loads(json.dumps(value), parse_float=_number)
    return json.dumps(read, sort_keys=True)


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() else number


def unsupported(name: str) -> BadRequest:
    return BadRequest(
        f"The schema says {name}, which cannot be kept while a text is written in any order. Leave it out, "
        "and check it afterwards."
    )
