"""Values cross unchanged, and nothing malformed gets through."""

import json
import math
import socket
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.judge.inside import wire


def refuse(*_: Any) -> Any:
    raise wire.WireError("not plain data")


def cross(value: Any) -> Any:
    data = wire.loads(wire.dumps(wire.WireEncoder(refuse).encode(value)))
    return wire.WireDecoder(refuse).decode(data)


HASHABLE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(), max_size=20)
    | st.binary()
    | st.complex_numbers(allow_nan=False)
    | st.fractions()
    | st.decimals(allow_nan=False),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=4),
    max_leaves=4,
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(HASHABLE, inner, max_size=4)
        | st.sets(HASHABLE, max_size=4)
        | st.builds(deque, st.lists(inner, max_size=3))
        | st.builds(bytearray, st.binary())
    ),
    max_leaves=6,
)


@given(VALUES)
def test_plain_data_crosses_unchanged(value: Any) -> None:
    arrived = cross(value)
    assert arrived == value
    assert type(arrived) is type(value)


def test_awkward_values_cross_unchanged() -> None:
    values = [10**5000, -(1 << 63), 1 << 63, "\ud83d\ude00", "\udc80", range(2, 9, 3), "😀", True]
    assert cross(values) == values
    assert [type(value) for value in cross(values)] == [type(value) for value in values]
    for value in (-0.0, math.nan, Decimal("1.10"), Fraction(2, 4)):
        assert repr(cross(value)) == repr(value)


def test_views_of_a_dict_stay_views() -> None:
    held = {"a": 1, "b": [2]}
    assert cross(held.keys()) == {"a", "b"}
    assert cross(OrderedDict(a=1).items()) == {("a", 1)}
    assert list(cross(held.items())) == [("a", 1), ("b", [2])]
    assert cross({1: 2}.keys()) != {2}


class Colour(IntEnum):
    RED = 3


class Liar(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


class LyingCounter(Counter[str]):
    def __eq__(self, other: object) -> bool:
        return True


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Colour.RED, 3),
        (Liar(4), 4),
        (LyingCounter("aab"), Counter("aab")),
        (OrderedDict(b=1, a=2), OrderedDict(b=1, a=2)),
        (defaultdict(int, x=1), {"x": 1}),
    ],
)
def test_subclasses_become_the_built_in_type(value: Any, plain: Any) -> None:
    arrived = cross(value)
    assert type(arrived) is type(plain)
    assert plain == arrived


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def test_depth_has_a_limit_on_both_sides() -> None:
    assert cross(nested(wire.DEPTH)) == nested(wire.DEPTH)
    with pytest.raises(wire.WireError, match="deeper"):
        cross(nested(wire.DEPTH + 1))
    with pytest.raises(wire.WireError, match="deeper"):
        wire.WireDecoder(refuse).decode(nested(wire.DEPTH + 5))


def test_number_of_items_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "ITEMS", 100)
    assert cross(list(range(99))) == list(range(99))
    with pytest.raises(wire.WireError, match="items"):
        cross(list(range(100)))


MALFORMED = [
    {"int": 5},
    {"int": "xyz"},
    {"set": [[1]]},
    {"dict": [[1, 2, 3]]},
    {"dict": [[{"dict": []}, 1]]},
    {"complex": ["1"]},
    {"complex": []},
    {"range": ["0x1", "0x2", "0x0"]},
    {"fraction": ["0x1", "0x0"]},
    {"decimal": "one"},
    {"bytes": "zz"},
    {"str": "ff"},
    {"tuple": 3},
    {"keys": [[1]]},
    {"items": [1]},
    {"items": [[1, 2, 3]]},
    {"unknown": 1},
    {"int": "0x1", "str": ""},
    {},
]


@pytest.mark.parametrize("data", MALFORMED, ids=json.dumps)
def test_malformed_values_are_refused(data: Any) -> None:
    with pytest.raises(wire.WireError):
        wire.WireDecoder(refuse).decode(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["int", "dict", "set", "tuple", "str", "complex", "range", "opaque"]),
            inner,
            max_size=2,
        )
    ),
)


@given(JSON)
def test_decoding_either_gives_a_value_or_a_wire_error(data: Any) -> None:
    try:
        value = wire.WireDecoder(refuse).decode(data)
    except wire.WireError:
        value = None
    assert type(value).__module__ in ("builtins", "fractions", "decimal", "collections")


@pytest.mark.parametrize("body", [b"{", b"NaN", b"\xff", b"[" * 100_000, b"1" * 5000, b"Infinity"])
def test_what_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(wire.WireError, match="not JSON"):
        wire.loads(body)


def test_frames_cross_a_socket_and_end_with_it() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(wire.frame(wire.CALL, b"abc") + wire.frame(wire.ANSWER, b"") + b"cut")
        connection = wire.Connection(theirs)
        assert connection.receive() == (wire.CALL, b"abc")
        assert connection.receive() == (wire.ANSWER, b"")
        with pytest.raises(EOFError):
            connection.receive()


def test_messages_over_the_cap_are_refused_on_both_sides() -> None:
    with pytest.raises(wire.WireError, match="cap"):
        wire.frame(wire.CALL, bytes(wire.MESSAGE_BYTES + 1))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(wire.HEADER.pack(wire.MESSAGE_BYTES + 1, wire.CALL))
        with pytest.raises(wire.WireError, match="cap"):
            wire.Connection(theirs).receive()
