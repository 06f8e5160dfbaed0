"""The body of a request: strict JSON, bounded."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.server import limits
from archer.server.body import parse
from archer.server.refusals import Refusal

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
    max_leaves=20,
)


@given(JSON)
def test_sound_json_is_read_as_it_is(value: object) -> None:
    assert parse(json.dumps(value).encode()) == value


REFUSED = {
    "": "not JSON",
    "{": "not JSON",
    "NaN": "NaN is not a number",
    '{"a": Infinity}': "Infinity is not a number",
    "[-Infinity]": "-Infinity is not a number",
    '{"a": 1, "a": 2}': "twice",
    '"\\ud800"': "surrogate",
    '{"\\udc00": 1}': "surrogate",
    '"\\u0000"': "NUL",
    "1e400": "too large",
    str(1 << 63): "64 bits",
    "9" * 5000: "too long",
    "[" * (limits.DEPTH + 1) + "]" * (limits.DEPTH + 1): "deeper",
    "[" * 10_000: "deeper",
    "[" * 200_000: "lists and objects",
    "[" + "0," * limits.VALUES + "0]": f"more than {limits.VALUES} values",
    "[" + "[]," * limits.CONTAINERS + "[]]": f"more than {limits.CONTAINERS} lists and objects",
    json.dumps(
        dict.fromkeys(map(str, range(limits.NAMES + 1)))
    ): f"more than {limits.NAMES} fields",
}


@pytest.mark.parametrize(("text", "phrase"), REFUSED.items(), ids=[k[:12] for k in REFUSED])
def test_everything_else_is_refused_with_a_sentence(text: str, phrase: str) -> None:
    with pytest.raises(Refusal, match=phrase) as caught:
        parse(text.encode())
    assert caught.value.status == 400


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(Refusal, match="not UTF-8: byte 1"):
        parse(b'"\xff"')


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail_otherwise(content: bytes) -> None:
    refusal = None
    try:
        read = parse(content)
    except Refusal as error:
        refusal = error
    if refusal is None:
        assert read == json.loads(content)
    else:
        assert (refusal.status, refusal.message[-1]) == (400, ".")
