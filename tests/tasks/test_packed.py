"""The restricted reader: it reads what pickle writes for one text, and nothing else."""

import base64
import json
import pickle
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.tasks import livecodebench as packed
from archer.tasks.livecodebench import pickled_text, read_tests
from archer.tasks.sources import BadData

TESTS = [{"input": "1\n2", "output": "3", "testtype": "stdin"}]


def pack(value: object, protocol: int = 4) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value, protocol))).decode()


@given(st.text(st.characters(codec=None)), st.sampled_from([2, 3, 4, 5]))
def test_every_text_comes_back(text: str, protocol: int) -> None:
    assert pickled_text(pickle.dumps(text, protocol)) == text


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("length", [0, 1, 255, 256, 65535, 65536, 300_000])
def test_every_length_comes_back(length: int, protocol: int) -> None:
    assert pickled_text(pickle.dumps("ä" * length, protocol)) == "ä" * length


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_packed_tests_are_read(protocol: int) -> None:
    assert read_tests(pack(json.dumps(TESTS), protocol)) == TESTS


def test_plain_tests_are_read() -> None:
    assert read_tests(json.dumps(TESTS)) == TESTS
    assert read_tests("[]") == []


class Harmful:
    """Runs a function when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("the reader ran what it was given",))


@pytest.mark.parametrize(
    "value",
    [Harmful(), ["[]"], b"[]", 1, None, {"a": "[]"}, ("[]",)],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
def test_anything_but_a_text_is_refused(value: object, protocol: int) -> None:
    with pytest.raises(BadData, match="not unpickled"):
        read_tests(pack(value, protocol))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80",
        b"\x80\x04",
        b"\x80\x09X\x00\x00\x00\x00q\x00.",
        b"\x80\x02X\x05\x00\x00\x00abq\x00.",
        b"\x80\x02X\x01\x00\x00\x00aq\x00.more",
        b"\x80\x02X\x01\x00\x00\x00aq\x000.",
        b"\x80\x02X\x01\x00\x00\x00a0q\x00.",
        b"\x80\x02X\x01\x00\x00\x00\xffq\x00.",
        b"\x80\x02cos\nsystem\n.",
    ],
)
def test_malformed_pickles_are_refused(content: bytes) -> None:
    with pytest.raises(BadData, match="not unpickled"):
        pickled_text(content)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        text = pickled_text(b"\x80\x04" + content)
    except BadData:
        return
    assert isinstance(text, str)


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("%%%", "damaged"),
        (base64.b64encode(b"not zlib").decode(), "damaged"),
        (base64.b64encode(zlib.compress(b"abc" * 100)[:-8]).decode(), "cut off"),
        (base64.b64encode(zlib.compress(b"abc") + b"more").decode(), "followed by more"),
        (pack("no json"), "not JSON"),
        (pack('{"a": 1}'), "not a list"),
        (pack('[{"input": 1, "output": "", "testtype": ""}]'), "not a list"),
        ("[1]", "not a list"),
    ],
)
def test_damaged_fields_are_refused(field: str, reason: str) -> None:
    with pytest.raises(BadData, match=reason):
        read_tests(field)


def test_a_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "LARGEST", 1000)
    with pytest.raises(BadData, match="too long"):
        read_tests(pack("x" * 100_000))
