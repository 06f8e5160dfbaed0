"""Numbers within bounds: no text reads as a number outside, as digits or as a float, and none is lost."""

import json
from decimal import Decimal
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from archer.errors import BadRequest
from archer.structure.byte_automaton import ByteAutomaton
from archer.structure.schema import automaton_of
from structure.test_schema import drawn

BOUNDS = st.one_of(
    st.integers(-12, 12),
    st.integers(-(10**29) + 1, 10**29 - 1),
    st.sampled_from([10**28, -(10**28), 1e22, 0.1, -0.1, 2.5, -2.5, 0.5, 1e-7, 0.3]),
    st.floats(-20, 20).filter(lambda each: len(f"{Decimal(str(each)):f}") <= 30),
)
LOWER, UPPER = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")


def around(bound: Any) -> list[str]:
    """Texts of numbers close to a bound, some of them far closer than a float."""
    exact = Decimal(str(bound))
    whole = int(exact)
    near = [str(whole + step) for step in range(-2, 3)] + [f"{exact:f}"]
    nines = [f"{whole + step}.{'9' * 25}" for step in (-1, 0)]
    return [*near, *nines, f"{exact:f}{'' if '.' in f'{exact:f}' else '.'}{'0' * 24}1", "0.5", "-3"]


def written(automaton: ByteAutomaton, bounds: list[Any]) -> list[str]:
    texts = [text for bound in bounds for text in around(bound)]
    texts += [f"-{text}" for text in texts if not text.startswith("-")]
    kept = [text for text in texts if automaton.accepts(text.encode())]
    return kept + [drawn(automaton, seed) for seed in range(4)]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["integer", "number"]), st.sampled_from([*LOWER, *UPPER]), BOUNDS)
@example("integer", "minimum", 2.5)
@example("integer", "exclusiveMinimum", 0.5)
@example("integer", "maximum", -2.5)
@example("integer", "minimum", 10**28)
@example("number", "exclusiveMaximum", 1)
@example("number", "exclusiveMinimum", 0)
@example("number", "maximum", 2**63 - 1)
@example("number", "minimum", 2**63 + 1)
@example("number", "minimum", 1 - 2**63)
@example("number", "exclusiveMinimum", -1e-7)
def test_no_text_reads_as_a_number_outside(kind: str, keyword: str, bound: Any) -> None:
    """As Python reads it, which is exact for whole numbers and a float for others."""
    schema = {"type": kind, keyword: bound}
    automaton = automaton_of(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for text in written(automaton, [bound]):
        validator.validate(json.loads(text))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["integer", "number"]),
    st.sampled_from(LOWER),
    st.sampled_from(UPPER),
    st.floats(-9, 9).map(lambda each: round(each, 3)),
    st.floats(-9, 9).map(lambda each: round(each, 2)),
    st.lists(st.floats(-9.5, 9.5).map(lambda each: round(each, 3)), max_size=20),
)
def test_whatever_number_is_valid_has_a_text(
    kind: str, lower: str, upper: str, low: float, high: float, values: list[float]
) -> None:
    schema = {"type": kind, lower: low, upper: high}
    validator = jsonschema.Draft202012Validator(schema)
    try:
        automaton = automaton_of(schema)
    except BadRequest:
        tried = [low, high, (low + high) / 2, *range(-9, 10)]
        assert not any(validator.is_valid(value) for value in tried)
        return
    for value in [*values, *range(-9, 10), low, high]:
        text = json.dumps(int(value) if value == int(value) else value)
        if "e" not in text:
            assert automaton.accepts(text.encode()) == validator.is_valid(json.loads(text))
    for seed in range(4):
        validator.validate(json.loads(drawn(automaton, seed)))


@pytest.mark.parametrize("text", ["0.99999999999999999999", "0.9999999999999999"])
def test_more_digits_than_a_float_has_come_no_nearer_to_what_is_left_out(text: str) -> None:
    automaton = automaton_of({"type": "number", "exclusiveMaximum": 1})
    assert automaton.accepts(text.encode()) == (json.loads(text) < 1)
