"""Schemas against another library: nothing invalid is written, and nothing valid is lost."""

import json
import random
from collections.abc import Callable
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from archer.errors import BadRequest
from archer.structure import algebra
from archer.structure.byte_automaton import DEAD, ByteAutomaton, of_regex
from archer.structure.pattern import CHARACTER
from archer.structure.schema import automaton_of, read_schema
from archer.structure.structures import Structure

SCHEMAS: list[dict[str, Any]] = [
    {"type": "integer", "minimum": -12, "maximum": 205},
    {"type": "integer", "exclusiveMinimum": 3},
    {"type": "number", "minimum": -1.5, "exclusiveMaximum": 2.25},
    {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    {"type": "string", "minLength": 2, "maxLength": 4},
    {"type": "string", "pattern": "^[a-c]+(x|y)?$", "maxLength": 5},
    {"type": "string", "pattern": 'q"?\\d{2}'},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "ipv4"},
    {"enum": ["a", 1, None, {"k": [1, "z"]}]},
    {"type": "string", "enum": ["long", "x", 3], "maxLength": 2},
    {"type": ["null", "boolean"]},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
    {"type": "array", "prefixItems": [{"type": "null"}, {"const": 5}], "items": False},
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "é"]}, "c": {"type": "null"}},
        "required": ["b"],
        "additionalProperties": False,
    },
    {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}, "minProperties": 1},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {
        "type": "object",
        "properties": {"ab": {"const": 1}},
        "additionalProperties": {"type": "null"},
    },
    {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]},
    {"allOf": [{"type": "integer", "minimum": 2}, {"maximum": 9}]},
    {
        "$defs": {
            "point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}
        },
        "type": "array",
        "items": {"$ref": "#/$defs/point"},
        "maxItems": 2,
    },
]


def drawn(automaton: ByteAutomaton, seed: int) -> str:
    """Some accepted text: at random for a while, and then on the shortest way to an end."""
    noise = random.Random(seed)
    far = np.where(automaton.accepting, 0, 1 << 20)
    for _ in range(automaton.states):
        ahead = np.where(automaton.next == DEAD, 1 << 20, far[automaton.next]).min(axis=1) + 1
        far = np.minimum(far, ahead)
    text, state = bytearray(), automaton.start
    while not (automaton.accepting[state] and (len(text) > 40 or noise.random() < 0.3)):
        ways = np.flatnonzero(automaton.next[state] != DEAD)
        if not len(ways):
            break
        if len(text) > 40:
            ways = ways[far[automaton.next[state, ways]] == far[automaton.next[state, ways]].min()]
        plain = ways[ways < 128]
        byte = int(noise.choice((plain if len(plain) else ways).tolist()))
        text.append(byte)
        state = int(automaton.next[state, byte])
    return text.decode()


def after(automaton: ByteAutomaton, value: Any, state: int) -> int:
    """The state behind some text of a value; DEAD where there is none."""
    if isinstance(value, dict):
        here = automaton.after(b"{", state)
        ends = (
            _closed(automaton, value, frozenset(value), here, set(), lookahead=lookahead)
            for lookahead in (False, True)
        )
        return next((end for end in ends if end != DEAD), DEAD)
    if isinstance(value, list):
        here = automaton.after(b"[", state)
        for at, item in enumerate(value):
            here = automaton.after(b", " if at else b"", here)
            here = DEAD if here == DEAD else after(automaton, item, here)
        return automaton.after(b"]", here)
    spellings = [json.dumps(value, ensure_ascii=False)]
    if isinstance(value, float) and value.is_integer():
        spellings.append(str(int(value)))
    found = [automaton.after(text.encode(errors="surrogatepass"), state) for text in spellings]
    return next((each for each in found if each != DEAD), DEAD)


MOST_TRIED = 500
"""Orders of the members of an object that led nowhere, after which it is given up."""


def _closed(
    automaton: ByteAutomaton,
    value: dict[str, Any],
    left: frozenset[str],
    here: int,
    failed: set[tuple[int, frozenset[str]]],
    *,
    lookahead: bool,
) -> int:
    """The state behind an object of which some members are left, in an order that is accepted.

    With `lookahead` members that rule out the fewest of the others are tried first, else in their order.
    """

    def begun(name: str, state: int, comma: bytes) -> int:
        return automaton.after(comma + json.dumps(name, ensure_ascii=False).encode() + b": ", state)

    if not left:
        return automaton.after(b"}", here)
    if here == DEAD or (here, left) in failed or len(failed) >= MOST_TRIED:
        return DEAD
    comma = b", " if len(left) < len(value) else b""
    ways = []
    for name in (name for name in value if name in left):
        start = begun(name, here, comma)
        behind = DEAD if start == DEAD else after(automaton, value[name], start)
        if behind != DEAD:
            still = sum(begun(other, behind, b", ") != DEAD for other in left - {name})
            ways.append((still, name, behind))
    for _, name, behind in sorted(ways, key=lambda way: -way[0] if lookahead else 0):
        end = _closed(automaton, value, left - {name}, behind, failed, lookahead=lookahead)
        if end != DEAD:
            return end
    failed.add((here, left))
    return DEAD


def accepts(automaton: ByteAutomaton, value: Any) -> bool:
    """Whether a value has a text that is accepted."""
    state = after(automaton, value, automaton.start)
    return state != DEAD and bool(automaton.accepting[state])


@pytest.mark.thinned(2)
@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: json.dumps(schema)[:60])
@pytest.mark.parametrize("exact", [False, True])
def test_whatever_is_accepted_is_valid(schema: dict[str, Any], exact: bool) -> None:
    automaton = automaton_of(schema, exact=exact)
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    for seed in range(12):
        text = drawn(automaton, seed)
        assert automaton.accepts(text.encode())
        validator.validate(json.loads(text))


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-300, 300),
        st.sampled_from(
            [0.5, -1.5, 2.25, 2.2, 1.0, "a", "ab", "x", "long", "é", "acx", "q77", 'q"12']
        ),
        st.sampled_from(["2024-02-29", "2023-02-29", "10.0.0.255", "10.0.0.256", ""]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "c", "ab", "k", "x"]), inner, max_size=3),
    ),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SCHEMAS), VALUES)
def test_a_value_is_accepted_if_and_only_if_it_is_valid(schema: dict[str, Any], value: Any) -> None:
    """To the letter; properties come in the order of the schema, which `accepts` finds."""
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    assert accepts(automaton_of(schema, exact=True), value) == validator.is_valid(value)


def is_kept(schema: dict[str, Any], value: Any) -> bool:
    """Whether a value has the text in which it is listed beside a schema, and deeper in both as well."""
    deeper = {"properties": {"k": schema}, "required": ["k"]}
    of_deeper = {"items": deeper, "const": [{"k": value, "others": 1e22}]}
    verdicts = []
    for each in ({"allOf": [schema], "const": value}, of_deeper):
        text = json.dumps(each["const"], ensure_ascii=False).encode()
        try:
            made = automaton_of({"$defs": schema.get("$defs", {}), **each})
        except BadRequest:
            verdicts.append(False)
        else:
            verdicts.append(made.accepts(text))
    assert verdicts[0] == verdicts[1]
    return verdicts[0]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SCHEMAS), VALUES)
def test_a_listed_value_is_kept_if_and_only_if_the_rest_allows_it(
    schema: dict[str, Any], value: Any
) -> None:
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    assert is_kept(schema, value) == validator.is_valid(value)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: json.dumps(schema)[:60])
def test_a_listed_value_that_is_written_elsewhere_is_kept(schema: dict[str, Any]) -> None:
    automaton = automaton_of(schema)
    assert all(is_kept(schema, json.loads(drawn(automaton, seed))) for seed in range(4))


@pytest.mark.parametrize(
    ("schema", "texts"),
    [
        ({"enum": [{"a": 1, "b": 2}, {"a": 1}], "required": ["b"]}, ['{"a": 1, "b": 2}']),
        ({"enum": [1e-7, 5, -5], "minimum": 0}, ["1e-07", "5"]),
        ({"type": "number", "const": 1e22, "minimum": 0}, ["1e+22"]),
        ({"type": "integer", "const": 1.0, "minimum": 0}, ["1.0"]),
        ({"enum": [0.1, 0.5, 0.7], "exclusiveMinimum": 0.1, "maximum": 0.5}, ["0.5"]),
        ({"enum": [1, 1.5, True], "multipleOf": 1}, ["1", "true"]),
        ({"type": "object", "const": {"a": [[[[1]]]]}, "required": ["a"]}, ['{"a": [[[[1]]]]}']),
        (
            {
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "enum": [{"b": 1, "a": 2}, {"b": 1.5}, {"c": 1.5}],
            },
            ['{"b": 1, "a": 2}', '{"c": 1.5}'],
        ),
        (
            {"enum": [{}, {"a": 1}, {"a": 1, "b": 2}], "minProperties": 1, "maxProperties": 1},
            ['{"a": 1}'],
        ),
        ({"enum": ["a", None], "pattern": "[]"}, ["null"]),
    ],
    ids=lambda each: json.dumps(each)[:50],
)
def test_listed_values_are_written_as_they_are_listed(schema: Any, texts: list[str]) -> None:
    wanted = algebra.one_of(text.encode() for text in texts)
    made = automaton_of(schema)
    assert wanted is not None
    assert algebra.without(made, wanted) is algebra.without(wanted, made) is None


def test_as_it_is_meant_an_object_has_the_declared_properties_only() -> None:
    schema = {"properties": {"a": {"type": "integer"}}}
    assert accepts(automaton_of(schema), {"a": 1})
    assert not accepts(automaton_of(schema), {"a": 1, "b": 2})
    assert not accepts(automaton_of(schema), "text")
    assert accepts(automaton_of(schema, exact=True), {"a": 1, "b": 2})
    assert accepts(automaton_of(schema, exact=True), "text")


def test_a_pydantic_model_is_a_schema() -> None:
    class City(BaseModel):
        name: str
        people: int

    assert read_schema(City)["properties"].keys() == {"name", "people"}
    automaton = automaton_of(read_schema(City))
    City.model_validate_json(drawn(automaton, 3))
    assert automaton.forced() == b'{"name": "'


def test_a_pydantic_model_without_a_schema_is_refused() -> None:
    class Caller(BaseModel):
        call: Callable[[], int]

    with pytest.raises(
        BadRequest, match="The model 'Caller' cannot be written as a schema: Cannot "
    ):
        read_schema(Caller)


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        (
            {
                "allOf": [
                    {"prefixItems": [{"type": ["string", "integer"]}]},
                    {"items": {"type": "integer"}},
                ]
            },
            [[], [1], [1, 2]],
            [["a"], [1, "a"]],
        ),
        (
            {
                "allOf": [
                    {"items": [{"type": "integer"}], "additionalItems": {"type": "string"}},
                    {"prefixItems": [True, {"maxLength": 1}], "items": False},
                ]
            },
            [[], [1], [1, "a"]],
            [["a"], [1, 2], [1, "ab"], [1, "a", "a"]],
        ),
        ({"allOf": [{"enum": [1, "a"]}, {"enum": [True, "a"]}]}, ["a"], [1, True]),
        (
            {"properties": {"a": {"type": "null"}}, "required": ["b"]},
            [{"a": None, "b": 1}, {"b": [{}]}],
            [{}, {"a": None}, {"b": 1, "c": 2}],
        ),
        ({"type": "object", "propertyNames": True}, [{}, {"a": 1}], [1]),
        (
            {"type": "integer", "minimum": 5, "anyOf": [{"maximum": 3}, {"maximum": 10}]},
            [5, 10],
            [3, 4, 11],
        ),
        ({"type": ["integer", "null"], "minimum": 3, "maximum": 2}, [None], [2, 3]),
        ({"properties": {"a": {"type": "integer", "minimum": 3, "maximum": 2}}}, [{}], [{"a": 2}]),
        ({"enum": ["a", "b"], "anyOf": [{"enum": ["c"]}, {"enum": ["a"]}]}, ["a"], ["b", "c"]),
        ({"const": 1, "anyOf": [{"const": 2}, {"const": 1}]}, [1], [2]),
        ({"type": ["string", "null"], "pattern": "[]"}, [None], ["", "a"]),
        (
            {"anyOf": [{"allOf": [{"const": {"a": 1}}, {"const": {"a": True}}]}, {"const": "b"}]},
            ["b"],
            [{"a": 1}, {"a": True}],
        ),
        (
            {"allOf": [{"enum": [1, 2, [3, {"a": 4}]]}, {"enum": [1.0, [3.0, {"a": 4.0}], True]}]},
            [1, [3, {"a": 4}]],
            [2, True],
        ),
        (
            {
                "allOf": [
                    {"type": "null", "$comment": "a", "readOnly": True, "$anchor": "c"},
                    {"$comment": "b", "readOnly": False, "$anchor": "d"},
                    {"deprecated": True, "writeOnly": True},
                    {"deprecated": False, "writeOnly": False},
                ]
            },
            [None],
            [1],
        ),
        ({"$ref": "#/$defs/", "$defs": {"": {"type": "null"}}}, [None], [1, {}]),
        (
            {"$ref": "#/$defs/a%20~1%7E0%C3%A9", "$defs": {"a /~é": {"type": "null"}}},
            [None],
            [1, {}],
        ),
        ({"$id": "http://a", "$ref": "#/$defs/b", "$defs": {"b": {"const": 1}}}, [1], [2]),
        (
            {"properties": {"a": {"type": "null"}}, "required": ["a", "a", "b", "b"]},
            [{"a": None, "b": 1}],
            [{"a": None}],
        ),
        ({"type": "string", "pattern": "^{a}{,2}{2$"}, ["{a}{,2}{2"], ["aa"]),
    ],
    ids=lambda each: json.dumps(each)[:50],
)
def test_what_two_keywords_say_together_holds(
    schema: dict[str, Any], valid: list[Any], invalid: list[Any]
) -> None:
    automaton = automaton_of(schema)
    assert all(accepts(automaton, value) for value in valid)
    assert not any(accepts(automaton, value) for value in invalid)


@pytest.mark.parametrize(
    ("name", "valid", "invalid"),
    [
        ("date", ["0001-01-01", "2000-02-29", "0400-02-29"], ["0000-01-01", "1900-02-29"]),
        ("time", ["23:59:59Z", "10:00:00.5+01:30"], ["10:00:60Z", "24:00:00Z", "10:00:00"]),
        ("date-time", ["2024-02-29T10:00:00Z"], ["0000-02-29T10:00:00Z", "2024-02-29T10:00:60Z"]),
        (
            "email",
            ["a@b", "a.b+c@d-e.org", "x" * 64 + "@b"],
            [".@a", "a..b@c", "a.@c", ".a@c", "@c", "a@", "x" * 65 + "@b", "a@b@c"],
        ),
        (
            "uri",
            [
                "a:",
                "http://a.b:80/c/d?e=f/?#g?h",
                "mailto:a@b.c",
                "a:/b//c",
                "urn:x:y",
                "http://u:p@h",
            ],
            [
                "a",
                "a:%",
                "a:%2",
                "a:##",
                "http://[",
                "http://a:b",
                "a:[",
                "1a:b",
                "a:b c",
                "http://a@b@c",
            ],
        ),
    ],
)
def test_formats_are_kept(name: str, valid: list[str], invalid: list[str]) -> None:
    automaton = automaton_of({"type": "string", "format": name})
    assert [each for each in valid if not accepts(automaton, each)] == []
    assert [each for each in invalid if accepts(automaton, each)] == []


RECURSIVE = {"$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"}


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({"not": {"type": "null"}}, "says not"),
        ({"if": {}, "then": {}}, "says if"),
        ({"type": "array", "uniqueItems": True}, "says uniqueItems"),
        ({"type": "array", "contains": {}}, "says contains"),
        ({"type": "object", "patternProperties": {"a": {}}}, "says patternProperties"),
        ({"enum": [{"a": [1]}], "properties": {"a": {"uniqueItems": True}}}, "says uniqueItems"),
        ({"enum": [{"a": 3}], "properties": {"a": {"multipleOf": 3}}}, "says multipleOf"),
        ({"enum": [{"a": 3}], "patternProperties": {"a": {}}}, "says patternProperties"),
        ({"enum": [[3]], "items": {"not": {}}}, "says not"),
        (
            {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "const": 1, "$ref": "#/$defs/a"},
            "end",
        ),
        ({"type": "object", "propertyNames": {"maxLength": 2}}, "says propertyNames"),
        ({"type": "object", "propertyNames": False}, "says propertyNames"),
        ({"allOf": [{"const": 1}, {"const": True}]}, "says const twice"),
        ({"allOf": [{"enum": [1]}, {"enum": [2]}]}, "two lists of its enum share none"),
        ({"type": "string", "pattern": "[]"}, "No text is accepted"),
        (
            {
                "required": ["a"],
                "properties": {"a": {"type": "integer", "minimum": 3, "maximum": 2}},
            },
            "allows no number",
        ),
        ({"allOf": [{"exclusiveMinimum": True}, {"exclusiveMinimum": 1}]}, "Minimum twice"),
        ({"type": "object", "minProperties": 3}, "says minProperties"),
        ({"type": "object", "maxProperties": 3}, "says maxProperties"),
        ({"type": "number", "multipleOf": 3}, "says multipleOf"),
        ({"type": "string", "format": "regex"}, "format 'regex' is not supported"),
        ({"type": "string", "pattern": "a(?=b)"}, "looks ahead"),
        ({"type": "string", "pattern": "(^a)"}, "elsewhere than at the start"),
        ({"type": "string", "pattern": "(a$)b"}, "elsewhere than at the end"),
        ({"type": "string", "pattern": "a)"}, "closed that was not opened"),
        ({"type": "string", "pattern": "(a"}, "is not closed"),
        ({"type": "string", "pattern": "[a"}, "ends too early"),
        ({"type": "string", "pattern": "*"}, "nothing stands before"),
        ({"type": "string", "pattern": "^a{2}{3}$"}, "nothing stands before {"),
        ({"type": "string", "pattern": "^a+{2}$"}, "nothing stands before {"),
        ({"type": "string", "pattern": "^{3}$"}, "nothing stands before {"),
        ({"type": "string", "pattern": "\\p{L}"}, "has no meaning"),
        ({"type": "string", "pattern": "\\u12"}, "named by no number"),
        ({"type": "string", "pattern": "[z-a]"}, "ends before it begins"),
        ({"type": "string", "pattern": "a{3,2}"}, "a count ends"),
        ({"type": "string", "pattern": "a{1,5000}"}, "more than 1000 times"),
        ({"type": "string", "pattern": "(" * 60 + "a" + ")" * 60}, "nested more than 50"),
        ({"type": "string", "maxLength": 1 << 20}, "can be counted"),
        ({"type": "string", "maxLength": -1}, "whole number of at least 0"),
        ({"type": "integer", "minimum": "a"}, "is a number"),
        ({"type": "integer", "minimum": 10**40}, "at most 30 digits"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "allows no number"),
        ({"type": "number", "minimum": 3, "exclusiveMaximum": 3}, "allows no number"),
        ({"type": "thing"}, "is no type of JSON"),
        ({"type": "object", "properties": []}, "is a mapping"),
        ({"type": "object", "required": [1]}, "is a list of names"),
        ({"type": "object", "properties": {"a": 3}}, "A schema is a mapping"),
        ({"allOf": [{"minimum": "a"}, {"minimum": 1}]}, "is a number"),
        ({"allOf": [{"required": 3}, {"required": ["a"]}]}, "is a list"),
        ({"type": "string", "pattern": 3}, "is a text"),
        ({"type": ["string", 3]}, "is no type of JSON"),
        ({"type": 3}, "is no type of JSON"),
        ({"anyOf": []}, "list that is not empty"),
        ({"allOf": [3]}, "A schema is a mapping"),
        ({"type": "array", "items": 3}, "A schema is a mapping"),
        ({"allOf": [{"pattern": "a"}, {"pattern": "b"}]}, "says pattern twice"),
        ({"$ref": "http://a/b"}, "leads outside"),
        ({"$ref": "#/nothing"}, "leads to nothing"),
        ({"$ref": "#a", "$defs": {"a": {"$anchor": "a"}}}, "leads to an anchor.* Write the path"),
        ({"items": {"$id": "b", "items": {"$ref": "#/items"}}}, "in a part whose \\$id is 'b'"),
        ({"$ref": "#"}, "without end"),
        ({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "without end"),
        (RECURSIVE, "without end"),
        (False, "Nothing is accepted"),
        ({"type": "string", "minLength": 2, "maxLength": 1}, "Nothing is accepted"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(schema: Any, sentence: str) -> None:
    with pytest.raises(BadRequest, match=sentence):
        automaton_of(schema)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"schema": {}, "regex": "a"}, "Give one of schema and regex"),
        ({"regex": 3}, "A regular expression is text"),
        ({"choices": "abc"}, "choices are a list"),
        ({"choices": []}, "choices are 1 to"),
        ({"choices": ["a", ""]}, "A choice is a text"),
        ({"choices": ["a" * (1 << 20), "b"]}, "more than 1048576 characters"),
        ({"choices": ["a", "\ud800"]}, "list of choices holds .* half of a character"),
        ({"regex": "a\udc00"}, "regular expression holds .* half of a character"),
        ({"schema": {"const": "\ud800"}}, "schema holds .* half of a character"),
        ({"schema": '{"const": "\\ud800"}'}, "schema holds .* half of a character"),
        ({"schema": 3}, "A schema is a mapping, a JSON text or a Pydantic model"),
        ({"schema": "{"}, "The schema is no JSON"),
        ({"schema": {"a": object()}}, "The schema is no JSON"),
        ({"schema": "[" + " " * (1 << 20) + "]"}, "is too long"),
        ({"schema": {"title": "a" * (1 << 20)}}, "is too long"),
    ],
)
def test_what_is_no_structure_is_refused(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadRequest, match=sentence):
        Structure.of(**asked)


@settings(max_examples=60, deadline=None)
@given(
    *[st.sampled_from(["a*", "(?:ab)*", "a|bb", "[ab]{2}", "b+a?", "abab"])] * 2,
    st.text("ab", max_size=5),
)
def test_automata_are_joined_as_their_texts_are(one: str, other: str, text: str) -> None:
    a, b = of_regex(one), of_regex(other)

    def found(made: ByteAutomaton | None) -> bool:
        return made is not None and made.accepts(text.encode())

    in_a, in_b = a.accepts(text.encode()), b.accepts(text.encode())
    assert found(algebra.either([a, b])) == (in_a or in_b)
    assert found(algebra.both(a, b)) == (in_a and in_b)
    assert found(algebra.without(a, b)) == (in_a and not in_b)
    assert found(algebra.joined([a, b])) == of_regex(f"(?:{one})(?:{other})").accepts(text.encode())
    plain = [each for each in (one, other) if each.isalpha()]
    assert found(algebra.one_of(each.encode() for each in plain)) == (text in plain)
    items = algebra.listing([a], b, 1, 3)
    assert found(items) == of_regex(f"(?:{one})(?:, (?:{other})){{0,2}}").accepts(text.encode())


def test_too_large_ones_are_refused() -> None:
    with pytest.raises(BadRequest, match="too large"):
        of_regex("(?:a|b)*a(?:a|b){15}")
    with pytest.raises(BadRequest, match="too large"):
        algebra.one_of([b"a" * (1 << 20)])
    with pytest.raises(BadRequest, match="too large"):
        algebra.listing([], of_regex("a"), 0, 1 << 20)


@pytest.mark.parametrize(("least", "most"), [(0, 0), (0, 3), (2, 4), (3, None)])
def test_counted_characters_are_what_the_expression_says(least: int, most: int | None) -> None:
    said = {"type": "string", "minLength": least} | ({} if most is None else {"maxLength": most})
    times = f"{{{least},{'' if most is None else most}}}"
    made, wanted = automaton_of(said), of_regex(f'"{CHARACTER}{times}"')
    assert algebra.without(made, wanted) is algebra.without(wanted, made) is None


def test_a_string_may_have_many_characters() -> None:
    """An expression of forty of them had no end."""
    made = automaton_of({"type": "string", "maxLength": 40})
    assert made.accepts(b'"' + b"x" * 40 + b'"')
    assert not made.accepts(b'"' + b"x" * 41 + b'"')
